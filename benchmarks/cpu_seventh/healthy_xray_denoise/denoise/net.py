import torch
import torch.nn as nn
import torch.nn.functional as F


class Denoiser(nn.Module):
    """Two-scale residual network predicting the noise."""

    def __init__(self, width=16):
        super().__init__()
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.fine = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.down = nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)
        self.coarse = nn.ModuleList(nn.Conv2d(2 * width, 2 * width, 3, padding=1) for _ in range(4))
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, noisy):
        x = F.relu(self.inp(noisy))
        y = F.relu(self.down(x))
        for conv in self.coarse:
            y = y + F.relu(conv(y))
        x = x + self.up(y)
        for conv in self.fine:
            x = x + F.relu(conv(x))
        return noisy - self.out(x)


class Average:
    """Exponential moving average of the weights, used for validation."""

    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.live = list(model.parameters())
        self.mean = [p.detach().clone() for p in self.live]

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.mean, self.live, 1 - self.decay)

    @torch.no_grad()
    def swap(self):
        for p, m in zip(self.live, self.mean):
            kept = p.clone()
            p.copy_(m)
            m.copy_(kept)
