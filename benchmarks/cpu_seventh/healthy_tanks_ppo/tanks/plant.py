"""Chain of coupled water tanks, many plants side by side; levels are to follow moving set points."""
import torch

TANKS = 6


class Plants:
    def __init__(self, count, seed, episode=120):
        self.n, self.episode = count, episode
        self.g = torch.Generator().manual_seed(seed)
        self.area = 0.8 + 0.6 * torch.rand(count, TANKS, generator=self.g)
        self.level = torch.rand(count, TANKS, generator=self.g)
        self.goal = torch.rand(count, TANKS, generator=self.g)
        self.valve = torch.zeros(count, TANKS)
        self.clock = torch.randint(0, episode, (count,), generator=self.g)

    def observe(self):
        phase = self.clock[:, None] / self.episode
        return torch.cat([self.level, self.goal, self.goal - self.level, self.valve, phase], 1)

    def step(self, action):
        self.valve = action.clamp(-1, 1)
        for _ in range(4):
            flow = 0.12 * (self.level + 1e-4).sqrt()
            arriving = torch.roll(flow, 1, 1)
            arriving[:, 0] = 0.08
            pump = 0.15 * (self.valve + 0.3)
            self.level = (self.level + (arriving - flow + pump) / self.area / 4).clamp(0, 2)
        reward = -(self.level - self.goal).abs().mean(1) - 0.01 * self.valve.square().mean(1)
        self.clock += 1
        done = self.clock >= self.episode
        fresh = torch.rand(self.n, 2 * TANKS, generator=self.g)
        self.level = torch.where(done[:, None], fresh[:, :TANKS], self.level)
        self.goal = torch.where(done[:, None], fresh[:, TANKS:], self.goal)
        self.clock.masked_fill_(done, 0)
        return self.observe(), reward, done.float()
