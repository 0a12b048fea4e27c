"""Double DQN on a toy catching game with stacked frames."""
import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Settings:
    size: int = 42
    stack: int = 4
    capacity: int = 1500
    batch: int = 32
    gamma: float = 0.97
    sync: int = 20
    lr: float = 3e-4


class Catch:
    """A ball falls; the paddle moves left, stays or moves right."""

    def __init__(self, s, rng):
        self.size, self.stack, self.rng = s.size, s.stack, rng
        self.reset()

    def reset(self):
        self.ball = [0, int(self.rng.integers(self.size))]
        self.paddle = self.size // 2
        self.frames = np.repeat(self.draw()[None], self.stack, 0)
        return self.frames

    def draw(self):
        frame = np.zeros((self.size, self.size), np.uint8)
        frame[self.ball[0], self.ball[1]] = 255
        frame[-1, max(0, self.paddle - 2):self.paddle + 3] = 255
        return frame

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 3 * (action - 1), 2, self.size - 3))
        self.ball[0] += 3
        done = self.ball[0] >= self.size
        reward = float(abs(self.ball[1] - self.paddle) <= 2) if done else 0.0
        if done:
            return self.reset(), reward, done
        self.frames = np.concatenate([self.frames[1:], self.draw()[None]])
        return self.frames, reward, done


class Replay:
    def __init__(self, s, rng):
        shape = (s.capacity, s.stack, s.size, s.size)
        self.obs, self.next_obs = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        self.action = np.zeros(s.capacity, np.int64)
        self.reward, self.done = np.zeros(s.capacity, np.float32), np.zeros(s.capacity, np.float32)
        self.capacity, self.rng, self.pushed = s.capacity, rng, 0

    def push(self, obs, action, reward, next_obs, done):
        i = self.pushed % self.capacity
        self.obs[i], self.next_obs[i] = obs, next_obs
        self.action[i], self.reward[i], self.done[i] = action, reward, done
        self.pushed += 1

    def sample(self, batch):
        idx = self.rng.integers(min(self.pushed, self.capacity), size=batch)
        obs = torch.tensor(self.obs[idx], dtype=torch.float32) / 255
        next_obs = torch.tensor(self.next_obs[idx], dtype=torch.float32) / 255
        action = torch.tensor(self.action[idx])
        reward = torch.tensor(self.reward[idx])
        done = torch.tensor(self.done[idx])
        return obs, action, reward, next_obs, done


def q_network(s, actions=3):
    return nn.Sequential(
        nn.Conv2d(s.stack, 32, 6, stride=2), nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, actions),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    s, rng = Settings(), np.random.default_rng(8)
    torch.manual_seed(8)
    env, replay = Catch(s, rng), Replay(s, rng)
    online, target = q_network(s), q_network(s)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=s.lr)
    obs = env.reset()
    for frame in range(s.capacity + 4 * steps):
        if frame == s.capacity + 4 * min(5, steps - 1):
            began = time.perf_counter()
        action = int(rng.integers(3))
        next_obs, reward, done = env.step(action)
        replay.push(obs, action, reward, next_obs, done)
        obs = next_obs
        if frame < s.capacity or frame % 4:
            continue
        step = (frame - s.capacity) // 4
        x, a, r, x2, d = replay.sample(s.batch)
        with torch.no_grad():
            best = online(x2).argmax(1, keepdim=True)
            y = r + s.gamma * (1 - d) * target(x2).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(online(x).gather(1, a[:, None]).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % s.sync == 0:
            target.load_state_dict(online.state_dict())
            print(f"step {step} td loss {loss.item():.6f}")
    mean = (time.perf_counter() - began) / max(1, steps - min(5, steps - 1))
    print(f"mean step {1000 * mean:.2f} ms")


if __name__ == "__main__":
    main()
