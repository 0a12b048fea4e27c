"""DQN playing a small pixel game (catch the falling ball)."""
import argparse
import copy
import random
import statistics
import time
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SIZE = 48


class CatchEnv:
    """A ball falls, a paddle moves left/stay/right. Observation: 4 stacked frames."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.frames = deque(maxlen=4)

    def _frame(self):
        img = np.zeros((SIZE, SIZE), dtype=np.uint8)
        y, x = self.ball
        img[y:y + 3, x:x + 3] = 255
        img[SIZE - 3:, self.paddle:self.paddle + 8] = 180
        return img

    def reset(self):
        self.ball = [0, int(self.rng.integers(0, SIZE - 3))]
        self.paddle = SIZE // 2 - 4
        for _ in range(4):
            self.frames.append(self._frame())
        return np.stack(self.frames)

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 3 * (action - 1), 0, SIZE - 8))
        self.ball[0] += 3
        done = self.ball[0] >= SIZE - 6
        reward = 0.0
        if done:
            reward = 1.0 if self.paddle - 2 <= self.ball[1] <= self.paddle + 8 else -1.0
        self.frames.append(self._frame())
        return np.stack(self.frames), reward, done


class QNet(nn.Module):
    def __init__(self, actions=3):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(64 * 2 * 2, 512), nn.ReLU(), nn.Linear(512, actions))

    def forward(self, x):
        return self.head(self.conv(x.float() / 255.0))


class ReplayBuffer:
    def __init__(self, capacity=5000):
        self.memory = deque(maxlen=capacity)

    def push(self, *transition):
        self.memory.append(transition)

    def sample(self, batch_size):
        batch = random.sample(self.memory, batch_size)
        states, actions, rewards, next_states, dones = zip(*batch)
        states = torch.from_numpy(np.stack(states))
        next_states = torch.from_numpy(np.stack(next_states))
        actions = torch.tensor(actions, dtype=torch.int64)
        rewards = torch.tensor(rewards, dtype=torch.float32)
        dones = torch.tensor(dones, dtype=torch.float32)
        return states, actions, rewards, next_states, dones

    def __len__(self):
        return len(self.memory)


class Agent:
    def __init__(self, gamma=0.97, lr=1e-4):
        self.q = QNet()
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma, self.updates, self.loss = gamma, 0, None

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(3)
        return int(self.q(torch.from_numpy(obs)[None]).argmax(1))

    def learn(self, s, a, r, s2, d):
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            target = r + self.gamma * (1 - d) * self.target(s2).gather(1, best).squeeze(1)
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        self.loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        self.loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % 50 == 0:
            self.target.load_state_dict(self.q.state_dict())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    env, agent, buffer = CatchEnv(), Agent(), ReplayBuffer()
    obs = env.reset()
    while len(buffer) < 500:
        action = random.randrange(3)
        nxt, reward, done = env.step(action)
        buffer.push(obs, action, reward, nxt, done)
        obs = env.reset() if done else nxt

    times, start = [], time.perf_counter()
    while len(times) < args.steps or (args.seconds and time.perf_counter() - start < args.seconds):
        t0 = time.perf_counter()
        for _ in range(4):
            action = agent.act(obs, eps=0.1)
            nxt, reward, done = env.step(action)
            buffer.push(obs, action, reward, nxt, done)
            obs = env.reset() if done else nxt
        agent.learn(*buffer.sample(64))
        times.append(time.perf_counter() - t0)
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return agent.loss.item()


if __name__ == "__main__":
    main()
