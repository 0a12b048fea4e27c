"""Double DQN for the elevator dispatch toy (grid observations, 16 buildings side by side)."""
import argparse
import collections
import copy
import random
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FLOORS, SHAFTS = 16, 6
ACTIONS = 3
Transition = collections.namedtuple("Transition", "obs action reward next_obs done")


class Buildings:
    """Vectorised environment: one lift steered by the agent, the rest follow a fixed sweep."""

    def __init__(self, count, seed):
        self.n = count
        self.rng = np.random.default_rng(seed)
        self.cars = self.rng.integers(0, FLOORS, (count, SHAFTS))
        self.direction = self.rng.choice([-1, 1], (count, SHAFTS))
        self.waiting = np.zeros((count, FLOORS), np.float32)
        self.age = np.zeros(count, np.int64)

    def observe(self):
        obs = np.zeros((self.n, 4, FLOORS, SHAFTS), np.float32)
        rows, cols = np.arange(self.n)[:, None], np.arange(SHAFTS)[None]
        obs[rows, 0, self.cars, cols] = 1
        obs[:, 1] = self.waiting[:, :, None] / 5
        obs[rows, 2, self.cars, cols] = self.direction
        obs[:, 3, :, 0] = self.age[:, None] / 200
        return obs

    def step(self, action):
        self.cars[:, 0] = np.clip(self.cars[:, 0] + action - 1, 0, FLOORS - 1)
        self.direction[:, 0] = action - 1
        self.cars[:, 1:] += self.direction[:, 1:]
        flip = (self.cars[:, 1:] <= 0) | (self.cars[:, 1:] >= FLOORS - 1)
        self.direction[:, 1:][flip] *= -1
        self.cars = np.clip(self.cars, 0, FLOORS - 1)
        self.waiting += self.rng.random(self.waiting.shape) < 0.08
        rows = np.arange(self.n)
        served = self.waiting[rows, self.cars[:, 0]].copy()
        np.put_along_axis(self.waiting, self.cars, 0, 1)
        self.age += 1
        done = self.age >= 200
        reward = (served - 0.02 * self.waiting.sum(1)).astype(np.float32)
        self.waiting[done], self.age[done] = 0, 0
        return self.observe(), reward, done.astype(np.float32)


class Replay:
    def __init__(self, capacity):
        self.items = collections.deque(maxlen=capacity)

    def push(self, obs, action, reward, next_obs, done):
        self.items.extend(map(Transition, obs, action, reward, next_obs, done))

    def sample(self, count):
        batch = Transition(*zip(*random.sample(self.items, count)))
        return (torch.tensor(batch.obs, dtype=torch.float32),
                torch.tensor(batch.action, dtype=torch.int64),
                torch.tensor(batch.reward, dtype=torch.float32),
                torch.tensor(batch.next_obs, dtype=torch.float32),
                torch.tensor(batch.done, dtype=torch.float32))

    def __len__(self):
        return len(self.items)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 24, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(24, 24, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.value = nn.Sequential(nn.Linear(24 * 8 * 3, 128), nn.ReLU(), nn.Linear(128, 1))
        self.advantage = nn.Sequential(nn.Linear(24 * 8 * 3, 128), nn.ReLU(), nn.Linear(128, ACTIONS))

    def forward(self, obs):
        h = self.conv(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


def update(online, target, opt, batch, gamma=0.97):
    obs, action, reward, next_obs, done = batch
    with torch.no_grad():
        best = online(next_obs).argmax(1, keepdim=True)
        goal = reward + gamma * (1 - done) * target(next_obs).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(online(obs).gather(1, action[:, None]).squeeze(1), goal)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0)
    opt.step()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60, help="environment steps, each with one update")
    ap.add_argument("--batch", type=int, default=256)
    args = ap.parse_args()
    random.seed(0), torch.manual_seed(0)

    env, replay, explore = Buildings(16, seed=4), Replay(20_000), np.random.default_rng(8)
    online = QNet()
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.Adam(online.parameters(), lr=5e-4)

    obs = env.observe()
    for _ in range(100):
        action = explore.integers(0, ACTIONS, env.n)
        nxt, reward, done = env.step(action)
        replay.push(obs, action, reward, nxt, done)
        obs = nxt

    times, losses, rewards = [], [], []
    for step in range(args.steps):
        t0 = time.perf_counter()
        with torch.no_grad():
            greedy = online(torch.from_numpy(obs)).argmax(1).numpy()
        epsilon = max(0.05, 1.0 - step / 400)
        action = np.where(explore.random(env.n) < epsilon, explore.integers(0, ACTIONS, env.n), greedy)
        nxt, reward, done = env.step(action)
        replay.push(obs, action, reward, nxt, done)
        obs = nxt
        losses.append(update(online, target, opt, replay.sample(args.batch)))
        rewards.append(float(reward.mean()))
        if (step + 1) % 50 == 0:
            target.load_state_dict(online.state_dict())
        times.append(time.perf_counter() - t0)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1}  loss {losses[-1]:.5f}  reward {np.mean(rewards[-20:]):.3f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
