"""Train a DQN on transitions from a replay buffer."""

import argparse
import collections
import copy
import json
import random
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Environment:
    def __init__(self, size, actions):
        self.rng = np.random.default_rng(0)
        self.pull = self.rng.normal(size=(actions, size)).astype(np.float32)
        self.state = np.zeros(size, dtype=np.float32)

    def step(self, action):
        drift = self.rng.normal(size=self.state.shape).astype(np.float32)
        self.state = (0.9 * self.state + 0.1 * self.pull[action] + 0.05 * drift).astype(np.float32)
        return self.state, float(-np.abs(self.state).mean())


def build(size, width, actions):
    return nn.Sequential(
        nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    random.seed(0)
    size, width, actions, batch, kept = (16, 32, 4, 8, 100) if args.small else (512, 1024, 16, 128, 5000)

    environment = Environment(size, actions)
    replay = collections.deque(maxlen=kept)
    state = environment.state
    for _ in range(kept):
        action = random.randrange(actions)
        following, reward = environment.step(action)
        replay.append((state, action, reward, following))
        state = following
    model = build(size, width, actions).to(device)
    target = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(WARMUP + args.steps):
        action = random.randrange(actions)
        following, reward = environment.step(action)
        replay.append((state, action, reward, following))
        state = following

        states, picked, rewards, followings = zip(*random.sample(replay, batch), strict=True)
        states = torch.tensor(states, dtype=torch.float32).to(device)
        picked = torch.tensor(picked).to(device)
        rewards = torch.tensor(rewards).to(device)
        followings = torch.tensor(followings, dtype=torch.float32).to(device)
        with torch.no_grad():
            goal = rewards + 0.99 * target(followings).amax(1)
        value = model(states).gather(1, picked[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            target.load_state_dict(model.state_dict())
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
