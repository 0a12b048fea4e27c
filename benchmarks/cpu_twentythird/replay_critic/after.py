"""Fit a Q-network from replayed range scans of a made-up corridor task."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

BEAMS = 1024
ACTIONS = 5


class Corridor:
    """Many walkers in parallel; the scan is a noisy picture of the position."""

    def __init__(self, walkers, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.walkers = walkers
        self.position = torch.zeros(walkers, 2)
        self.basis = torch.randn(2, BEAMS, generator=self.rng)

    def scan(self):
        noise = torch.randn(self.walkers, BEAMS, generator=self.rng)
        return torch.tanh(self.position @ self.basis) + 0.05 * noise

    def act(self, action):
        angle = action * (2 * torch.pi / ACTIONS)
        move = 0.1 * torch.stack([angle.cos(), angle.sin()], dim=1)
        self.position = (self.position + move).clamp(-1, 1)
        return 1.0 - (self.position - 0.5).norm(dim=1)


class Replay:
    """Ring of transitions; the successor of a scan is stored `stride` slots on."""

    def __init__(self, capacity, stride, seed):
        self.capacity = capacity
        self.stride = stride
        self.rng = torch.Generator().manual_seed(seed)
        self.scans = torch.zeros(capacity, BEAMS)
        self.actions = torch.zeros(capacity, dtype=torch.long)
        self.rewards = torch.zeros(capacity)
        self.head = 0
        self.size = 0

    def add(self, scan, action, reward):
        slots = (self.head + torch.arange(self.stride)) % self.capacity
        self.scans[slots] = scan
        self.actions[slots] = action
        self.rewards[slots] = reward
        self.head = (self.head + self.stride) % self.capacity
        self.size = min(self.size + self.stride, self.capacity)

    def sample(self, count):
        age = torch.randint(self.stride + 1, self.size + 1, (count,), generator=self.rng)
        now = (self.head - age) % self.capacity
        after = (now + self.stride) % self.capacity
        return self.scans[now], self.actions[now], self.rewards[now], self.scans[after]


def q_network(width=128):
    return nn.Sequential(
        nn.Linear(BEAMS, width), nn.ReLU(inplace=True),
        nn.Linear(width, width), nn.ReLU(inplace=True),
        nn.Linear(width, ACTIONS),
    )


class Learner:
    def __init__(self, gamma=0.97, lr=3e-4, blend=0.01):
        self.online = q_network()
        self.target = q_network().requires_grad_(False)
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr, fused=True)
        self.gamma = gamma
        self.blend = blend

    def update(self, scan, action, reward, next_scan):
        with torch.no_grad():
            goal = reward + self.gamma * self.target(next_scan).amax(dim=1)
        value = self.online(scan).gather(1, action[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), self.blend)
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    args = parser.parse_args()

    torch.manual_seed(13)
    world = Corridor(walkers=16, seed=6)
    replay = Replay(capacity=24000, stride=16, seed=8)
    learner = Learner()
    explore = torch.Generator().manual_seed(10)

    def interact():
        scan = world.scan()
        action = torch.randint(0, ACTIONS, (world.walkers,), generator=explore)
        replay.add(scan, action, world.act(action))

    for _ in range(1500):
        interact()
    loss = None
    for _ in range(args.steps):
        interact()
        for _ in range(args.updates):
            loss = learner.update(*replay.sample(args.batch))
    print(f"final loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
