"""DQN on a tiny pixel 'catch' game with a replay memory."""

import argparse
import json
import random
import statistics
import time
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward next_state done")


class CatchEnv:
    """A ball falls; move the paddle left, stay or right. Four stacked frames."""

    def __init__(self, size=40, rng=None):
        self.size = size
        self.rng = rng or np.random.default_rng(0)

    def reset(self):
        self.ball = [0, int(self.rng.integers(2, self.size - 2))]
        self.paddle = self.size // 2
        self.frames = deque([self._draw()] * 4, maxlen=4)
        return np.stack(self.frames)

    def _draw(self):
        frame = np.zeros((self.size, self.size), dtype=np.float32)
        frame[self.ball[0], self.ball[1] - 1 : self.ball[1] + 2] = 1.0
        frame[-1, max(0, self.paddle - 3) : self.paddle + 4] = 1.0
        return frame

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 2 * (action - 1), 3, self.size - 4))
        self.ball[0] += 1
        done = self.ball[0] >= self.size - 1
        reward = 0.0
        if done:
            reward = 1.0 if abs(self.ball[1] - self.paddle) <= 3 else -1.0
        self.frames.append(self._draw())
        return np.stack(self.frames), reward, done


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return Transition(*zip(*random.sample(self.memory, batch_size), strict=False))

    def __len__(self):
        return len(self.memory)


class QNet(nn.Module):
    def __init__(self, actions=3):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
        )
        self.fc = nn.Sequential(nn.Flatten(), nn.LazyLinear(512), nn.ReLU(), nn.Linear(512, actions))

    def forward(self, x):
        return self.fc(self.conv(x))


def optimize(policy, target, memory, optimizer, batch_size=64, gamma=0.97):
    batch = memory.sample(batch_size)
    states = torch.from_numpy(np.stack(batch.state))
    next_states = torch.from_numpy(np.stack(batch.next_state))
    actions = torch.tensor(batch.action).unsqueeze(1)
    rewards = torch.tensor(batch.reward)
    alive = 1.0 - torch.tensor(batch.done, dtype=torch.float32)

    q = policy(states).gather(1, actions).squeeze(1)
    with torch.no_grad():
        best = target(next_states).max(1).values
    loss = F.smooth_l1_loss(q, rewards + gamma * alive * best)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)

    env, memory = CatchEnv(), ReplayMemory(5000)
    policy, target = QNet(), QNet()
    state = env.reset()
    policy(torch.from_numpy(state)[None]), target(torch.from_numpy(state)[None])
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4)

    def act_once(state, eps):
        if random.random() < eps:
            action = random.randrange(3)
        else:
            with torch.no_grad():
                action = int(policy(torch.from_numpy(state)[None]).argmax(1))
        nxt, reward, done = env.step(action)
        memory.push(state, action, reward, nxt, done)
        return env.reset() if done else nxt

    for _ in range(300):
        state = act_once(state, 1.0)
    times, losses = [], []
    for step in range(args.steps):
        t0 = time.perf_counter()
        for _ in range(4):
            state = act_once(state, 0.2)
        losses.append(optimize(policy, target, memory, optimizer))
        if step % 20 == 19:
            target.load_state_dict(policy.state_dict())
            print(f"step {step + 1} loss {np.mean(losses[-20:]):.4f} memory {len(memory)}")
        times.append((time.perf_counter() - t0) * 1e3)
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
