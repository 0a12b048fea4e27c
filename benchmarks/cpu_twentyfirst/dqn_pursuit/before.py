"""Double DQN on a grid pursuit game, sixteen environments side by side."""
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

GRID = 11
N_ENVS = 16
STEPS_PER_UPDATE = 6
BATCH = 64
GAMMA = 0.97
MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0), (0, 0)])


class Pursuit:
    """The agent chases a drifting target around walls; an episode lasts 60 moves at most."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.walls = self.rng.random((GRID, GRID)) < 0.15
        cells = np.argwhere(~self.walls)
        picks = self.rng.choice(len(cells), 2, replace=False)
        self.agent, self.target = cells[picks[0]].copy(), cells[picks[1]].copy()
        self.clock = 0
        return self.observe()

    def observe(self):
        planes = np.zeros((3, GRID, GRID), dtype=np.float32)
        planes[0] = self.walls
        planes[1][tuple(self.agent)] = 1
        planes[2][tuple(self.target)] = 1
        return planes

    def shift(self, position, move):
        to = position + move
        if (to < 0).any() or (to >= GRID).any() or self.walls[tuple(to)]:
            return position
        return to

    def step(self, action):
        before = np.abs(self.agent - self.target).sum()
        self.agent = self.shift(self.agent, MOVES[action])
        if self.rng.random() < 0.3:
            self.target = self.shift(self.target, MOVES[self.rng.integers(4)])
        after = np.abs(self.agent - self.target).sum()
        self.clock += 1
        caught = after == 0
        reward = 1.0 if caught else 0.05 * float(before - after) - 0.01
        return self.observe(), reward, bool(caught or self.clock >= 60)


class Replay:
    def __init__(self, capacity):
        self.obs = np.zeros((capacity, 3, GRID, GRID), dtype=np.float32)
        self.next_obs = np.zeros_like(self.obs)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.dones = np.zeros(capacity, dtype=np.float32)
        self.capacity, self.count = capacity, 0

    def add(self, obs, action, reward, next_obs, done):
        i = self.count % self.capacity
        self.obs[i], self.next_obs[i] = obs, next_obs
        self.actions[i], self.rewards[i], self.dones[i] = action, reward, done
        self.count += 1

    def sample(self, rng, size):
        rows = rng.integers(0, min(self.count, self.capacity), size)
        arrays = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return [torch.from_numpy(a[rows]) for a in arrays]


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.value = nn.Sequential(nn.Linear(16 * 36, 64), nn.ReLU(), nn.Linear(64, 1))
        self.advantage = nn.Sequential(nn.Linear(16 * 36, 64), nn.ReLU(), nn.Linear(64, len(MOVES)))

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


@torch.no_grad()
def choose_actions(net, observations, epsilon, rng):
    explore = rng.random(N_ENVS) < epsilon
    random_actions = rng.integers(0, len(MOVES), N_ENVS)
    actions = []
    for i, obs in enumerate(observations):
        q = net(torch.from_numpy(obs).unsqueeze(0))
        actions.append(random_actions[i] if explore[i] else q.argmax(1).item())
    return actions


def td_loss(net, target_net, batch):
    obs, actions, rewards, next_obs, dones = batch
    q = net(obs).gather(1, actions.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = net(next_obs).argmax(1, keepdim=True)
        future = target_net(next_obs).gather(1, best).squeeze(1)
        goal = rewards + GAMMA * (1 - dones) * future
    return F.smooth_l1_loss(q, goal)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    envs = [Pursuit(seed) for seed in range(N_ENVS)]
    observations = [env.observe() for env in envs]
    net = QNet()
    target_net = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    replay = Replay(20000)

    times, total_reward, loss = [], 0.0, torch.zeros(())
    for step in range(args.steps):
        t0 = time.perf_counter()
        epsilon = max(0.1, 1.0 - step / 100)
        for _ in range(STEPS_PER_UPDATE):
            actions = choose_actions(net, observations, epsilon, rng)
            for i, env in enumerate(envs):
                next_obs, reward, done = env.step(actions[i])
                replay.add(observations[i], actions[i], reward, next_obs, done)
                observations[i] = env.reset() if done else next_obs
                total_reward += reward
        for _ in range(2):
            loss = td_loss(net, target_net, replay.sample(rng, BATCH))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 20 == 0:
            target_net.load_state_dict(net.state_dict())
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f} reward {total_reward:.3f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
