"""DDPG on a chain of coupled carts: vectorised environment, replay buffer, target networks."""
import argparse
import copy
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ENVS = 16
CARTS = 12
OBS, ACT = 2 * CARTS, 4
BATCH = 256
UPDATES = 4
GAMMA, TAU = 0.98, 0.01


class CartChain:
    """Carts joined by springs; the first four are pushed, all should come to rest."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.place = self.rng.normal(0, 1, (n, CARTS))
        self.speed = np.zeros((n, CARTS))

    def observe(self):
        return np.concatenate([self.place, self.speed], axis=1)

    def step(self, action):
        ends = np.pad(self.place, ((0, 0), (1, 1)))
        force = ends[:, 2:] + ends[:, :-2] - 2 * self.place
        force[:, :ACT] += 2.0 * action
        force += 0.5 * self.rng.normal(0, 1, force.shape)
        self.speed = 0.97 * self.speed + 0.1 * force
        self.place = self.place + 0.1 * self.speed
        return -(self.place ** 2).mean(1) - 0.01 * (action ** 2).mean(1)


class ReplayBuffer:
    def __init__(self, capacity, seed):
        self.rng = np.random.default_rng(seed)
        self.obs = np.zeros((capacity, OBS))
        self.next_obs = np.zeros((capacity, OBS))
        self.actions = np.zeros((capacity, ACT))
        self.rewards = np.zeros((capacity, 1))
        self.capacity, self.size, self.head = capacity, 0, 0

    def add(self, obs, action, reward, next_obs):
        rows = (self.head + np.arange(len(obs))) % self.capacity
        self.obs[rows], self.next_obs[rows] = obs, next_obs
        self.actions[rows], self.rewards[rows, 0] = action, reward
        self.head = int(rows[-1] + 1) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, k):
        rows = self.rng.integers(0, self.size, k)
        return [torch.as_tensor(field, dtype=torch.float32)[rows]
                for field in (self.obs, self.actions, self.rewards, self.next_obs)]


def mlp(n_in, n_out, width=256):
    return nn.Sequential(nn.Linear(n_in, width), nn.ReLU(),
                         nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_out))


class Agent:
    def __init__(self):
        self.actor = nn.Sequential(mlp(OBS, ACT), nn.Tanh())
        self.critic = mlp(OBS + ACT, 1)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    @torch.no_grad()
    def act(self, obs):
        return self.actor(torch.as_tensor(obs, dtype=torch.float32)).numpy()

    def update(self, obs, action, reward, next_obs):
        with torch.no_grad():
            ahead = self.critic_target(torch.cat([next_obs, self.actor_target(next_obs)], 1))
            target = reward + GAMMA * ahead
        critic_loss = F.mse_loss(self.critic(torch.cat([obs, action], 1)), target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        self.critic.requires_grad_(False)
        actor_loss = -self.critic(torch.cat([obs, self.actor(obs)], 1)).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        self.critic.requires_grad_(True)

        with torch.no_grad():
            for online, slow in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
                for p, q in zip(online.parameters(), slow.parameters()):
                    q.lerp_(p, TAU)
        return critic_loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()

    torch.manual_seed(0)
    env = CartChain(ENVS, seed=0)
    buffer = ReplayBuffer(300_000, seed=1)
    agent = Agent()
    rng = np.random.default_rng(2)
    obs = env.observe()

    times = []
    for step in range(-40, args.steps):
        t0 = time.perf_counter()
        for _ in range(UPDATES):
            action = np.clip(agent.act(obs) + rng.normal(0, 0.2, (ENVS, ACT)), -1, 1)
            reward = env.step(action)
            next_obs = env.observe()
            buffer.add(obs, action, reward, next_obs)
            obs = next_obs
            if step >= 0:
                loss = agent.update(*buffer.sample(BATCH))
        if step < 0:
            continue
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} critic {loss:.5f} reward {reward.mean():.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
