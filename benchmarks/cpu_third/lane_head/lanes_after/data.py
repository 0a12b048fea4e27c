"""Synthetic road scenes: a dark road, bright lane lines, per-pixel lane labels."""
import torch


class Roads:
    def __init__(self, batch, height=96, width=192, lanes=4, seed=0):
        self.batch, self.height, self.width, self.lanes = batch, height, width, lanes
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self):
        return self

    def __next__(self):
        g = self.generator
        y = torch.linspace(0, 1, self.height)[None, None, :, None]
        x = torch.linspace(-1, 1, self.width)[None, None, None, :]
        bend = torch.randn(self.batch, 1, 1, 1, generator=g) * 0.3
        offset = torch.linspace(-0.8, 0.8, self.lanes)[None, :, None, None]
        centre = offset * (0.2 + y) + bend * (1 - y) ** 2
        near = (x - centre).abs() < 0.01 + 0.03 * y
        label = torch.where(near.any(1), near.float().argmax(1) + 1, 0)
        image = 0.2 + 0.6 * near.any(1, keepdim=True).float()
        image = image + 0.15 * torch.randn(self.batch, 3, self.height, self.width, generator=g)
        return image, label
