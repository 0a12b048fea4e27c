"""PPO on a set of pendulum swing-up environments with a Gaussian policy."""
import argparse
import json
import math
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn

N_ENVS = 32
HORIZON = 16
EPOCHS = 3
MINIBATCH = 128
GAMMA, LAMBDA, CLIP = 0.98, 0.95, 0.2


class Pendulum:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.theta = self.rng.uniform(-math.pi, math.pi)
        self.omega = self.rng.uniform(-1.0, 1.0)
        self.age = 0
        return self.observe()

    def observe(self):
        return np.array([math.cos(self.theta), math.sin(self.theta), self.omega], dtype=np.float32)

    def step(self, torque):
        torque = max(-2.0, min(2.0, torque))
        angle = (self.theta + math.pi) % (2 * math.pi) - math.pi
        reward = -(angle ** 2 + 0.1 * self.omega ** 2 + 0.001 * torque ** 2)
        self.omega += (15.0 * math.sin(self.theta) + 3.0 * torque) * 0.05
        self.omega = max(-8.0, min(8.0, self.omega))
        self.theta += self.omega * 0.05
        self.age += 1
        done = self.age >= 200
        obs = self.reset() if done else self.observe()
        return obs, reward, done


class ActorCritic(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden),
                                   nn.Tanh(), nn.Linear(hidden, 1))
        self.critic = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden),
                                    nn.Tanh(), nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, obs):
        return self.actor(obs), self.critic(obs).squeeze(-1)

    def log_prob(self, mean, action):
        z = (action - mean) / self.log_std.exp()
        return (-0.5 * z ** 2 - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)


@torch.no_grad()
def collect(envs, current, model):
    obs = torch.zeros(HORIZON, N_ENVS, 3)
    act = torch.zeros(HORIZON, N_ENVS, 1)
    logp, value, reward, done = (torch.zeros(HORIZON, N_ENVS) for _ in range(4))
    noise = torch.randn(HORIZON, N_ENVS, 1)
    for t in range(HORIZON):
        o = torch.from_numpy(np.stack(current))
        mean, v = model(o)
        a = mean + model.log_std.exp() * noise[t]
        obs[t], act[t], value[t] = o, a, v
        logp[t] = model.log_prob(mean, a)
        results = [env.step(torque) for env, torque in zip(envs, a.squeeze(-1).tolist())]
        current[:] = [r[0] for r in results]
        reward[t] = torch.tensor([r[1] for r in results])
        done[t] = torch.tensor([float(r[2]) for r in results])
    last = model(torch.from_numpy(np.stack(current)))[1]
    adv = torch.zeros(HORIZON, N_ENVS)
    running = torch.zeros(N_ENVS)
    for t in reversed(range(HORIZON)):
        nxt = last if t == HORIZON - 1 else value[t + 1]
        delta = reward[t] + GAMMA * nxt * (1 - done[t]) - value[t]
        running = delta + GAMMA * LAMBDA * (1 - done[t]) * running
        adv[t] = running
    return obs.flatten(0, 1), act.flatten(0, 1), logp.flatten(), adv.flatten(), (adv + value).flatten(), reward


def update(model, optimizer, obs, act, logp, adv, returns):
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(EPOCHS):
        for idx in torch.randperm(len(obs)).split(MINIBATCH):
            mean, value = model(obs[idx])
            ratio = (model.log_prob(mean, act[idx]) - logp[idx]).exp()
            a = adv[idx]
            policy = -torch.minimum(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
            loss = policy + 0.05 * (value - returns[idx]).square().mean() - 0.001 * model.log_std.sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    envs = [Pendulum(seed) for seed in range(N_ENVS)]
    current = [env.observe() for env in envs]
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        obs, act, logp, adv, returns, reward = collect(envs, current, model)
        update(model, optimizer, obs, act, logp, adv, returns)
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"iteration {step + 1} reward {reward.mean().item():.4f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
