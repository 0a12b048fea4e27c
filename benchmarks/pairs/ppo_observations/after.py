"""Train a continuous controller with PPO on a set of simulated pendulums."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Pendulums:
    """Pendulums stepped together in numpy: the observation is cos, sin and velocity, padded by recent torques."""

    def __init__(self, count, history, seed):
        self.rng = np.random.default_rng(seed)
        self.count, self.history = count, history
        self.angle = self.rng.uniform(-np.pi, np.pi, count)
        self.speed = self.rng.uniform(-1, 1, count)
        self.torques = np.zeros((count, history))
        self.age = self.rng.integers(0, 200, count)

    def observe(self):
        return np.concatenate([np.stack([np.cos(self.angle), np.sin(self.angle), self.speed], 1), self.torques], 1)

    def step(self, actions):
        torque = np.clip(actions, -2, 2)
        wrapped = (self.angle + np.pi) % (2 * np.pi) - np.pi
        reward = -(wrapped**2 + 0.1 * self.speed**2 + 0.001 * torque**2)
        self.speed = np.clip(self.speed + (15 * np.sin(self.angle) + 3 * torque) * 0.05, -8, 8)
        self.angle = self.angle + self.speed * 0.05
        self.torques = np.concatenate([self.torques[:, 1:], torque[:, None]], 1)
        self.age += 1
        done = self.age >= 200
        self.angle = np.where(done, self.rng.uniform(-np.pi, np.pi, self.count), self.angle)
        self.speed = np.where(done, 0.0, self.speed)
        self.age[done] = 0
        return self.observe(), reward, done


class Normalizer:
    """Running mean and variance of the observations (Chan et al.)."""

    def __init__(self, shape):
        self.mean, self.var, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def update(self, batch):
        mean, var, count = batch.mean(0), batch.var(0), batch.shape[0]
        delta, total = mean - self.mean, self.count + count
        m2 = self.var * self.count + var * count + delta**2 * self.count * count / total
        self.mean, self.var, self.count = self.mean + delta * count / total, m2 / total, total

    def __call__(self, obs):
        self.update(obs)
        return np.clip((obs - self.mean) / np.sqrt(self.var + 1e-8), -10, 10).astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        self.critic = nn.Sequential(
            nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, obs):
        return Normal(self.actor(obs), self.log_std.exp(), validate_args=False), self.critic(obs)[:, 0]


def collect(env, obs, model, normalizer, horizon, device):
    rows = []
    with torch.no_grad():
        for _ in range(horizon):
            inputs = torch.from_numpy(obs).to(device)
            policy, value = model(inputs)
            action = policy.sample()
            packed = torch.stack([action[:, 0], policy.log_prob(action)[:, 0], value]).cpu().numpy()
            raw, reward, done = env.step(packed[0])
            rows.append((obs, packed, reward, done))
            obs = normalizer(raw)
        last = model(torch.from_numpy(obs).to(device))[1].cpu().numpy()
    observations = np.stack([row[0] for row in rows])
    packed = np.stack([row[1] for row in rows], 1)
    rewards, dones = np.stack([row[2] for row in rows]), np.stack([row[3] for row in rows])
    values = np.concatenate([packed[2], last[None]])
    advantages, running = np.zeros_like(rewards), 0.0
    for t in reversed(range(horizon)):
        alive = 1.0 - dones[t]
        running = rewards[t] + 0.99 * values[t + 1] * alive - values[t] + 0.99 * 0.95 * alive * running
        advantages[t] = running
    columns = np.stack([packed[0], packed[1], advantages, advantages + values[:-1]], -1).astype(np.float32)
    return (
        obs,
        torch.from_numpy(observations).flatten(0, 1).to(device),
        torch.from_numpy(columns).flatten(0, 1).to(device),
    )


def improve(model, optimizer, observations, columns, epochs, minibatches):
    for _ in range(epochs):
        for part in torch.randperm(len(columns), device=columns.device).chunk(minibatches):
            action, before, advantage, target = columns[part].unbind(1)
            policy, value = model(observations[part])
            ratio = (policy.log_prob(action[:, None])[:, 0] - before).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            loss = 0.5 * (value - target).pow(2).mean() - gain - 0.001 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    count, horizon, history, width = (8, 8, 13, 32) if args.small else (48, 32, 13, 256)

    env, normalizer = Pendulums(count, history, 0), Normalizer(3 + history)
    model = ActorCritic(3 + history, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, fused=device.type == "cuda")
    obs = normalizer(env.observe())
    losses = []
    for step in range(WARMUP + args.steps):
        obs, observations, columns = collect(env, obs, model, normalizer, horizon, device)
        losses.append(improve(model, optimizer, observations, columns, 3, 4))
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    print("loss", torch.stack(losses)[-1].item())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
