"""Stack of fully connected blocks, each explaining part of the history."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, history, horizon, width):
        super().__init__()
        self.history = history
        self.body = nn.Sequential(
            nn.Linear(history, width), nn.ReLU(inplace=True),
            nn.Linear(width, width), nn.ReLU(inplace=True),
            nn.Linear(width, width), nn.ReLU(inplace=True),
            nn.Linear(width, history + horizon),
        )

    def forward(self, x):
        out = self.body(x)
        return out[:, :self.history], out[:, self.history:]


class BackcastNet(nn.Module):
    def __init__(self, history, horizon, width=512, blocks=4):
        super().__init__()
        self.horizon = horizon
        self.blocks = nn.ModuleList(Block(history, horizon, width) for _ in range(blocks))

    def forward(self, x):
        forecast = torch.zeros(len(x), self.horizon)
        for block in self.blocks:
            backcast, part = block(x)
            x = x - backcast
            forecast = forecast + part
        return forecast
