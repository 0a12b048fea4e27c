"""Made-up hourly load of a few meters, with an occasional broken reading."""

import torch


class LoadWindows:
    history = 168
    horizon = 24

    def __init__(self, meters, hours, seed):
        self.rng = torch.Generator().manual_seed(seed)
        time = torch.arange(hours)
        phase = torch.rand(meters, 1, generator=self.rng) * 6.28
        daily = torch.sin(2 * torch.pi * time / 24 + phase)
        weekly = torch.sin(2 * torch.pi * time / 168 + 2 * phase)
        noise = torch.randn(meters, hours, generator=self.rng) * 0.2
        self.load = daily + 0.5 * weekly + noise
        self.load[3, hours // 2] = float("inf")

    def batch(self, size):
        span = self.history + self.horizon
        meters, hours = self.load.shape
        meter = torch.randint(0, meters, (size, 1), generator=self.rng)
        start = torch.randint(0, hours - span, (size, 1), generator=self.rng)
        window = self.load[meter, start + torch.arange(span)]
        return window[:, :self.history], window[:, self.history:]
