"""Training loop that leaves out batches whose loss is not finite."""

import torch
import torch.nn.functional as F
from torch import nn


class Trainer:
    def __init__(self, model, windows, lr, batch, clip=1.0):
        self.model = model
        self.windows = windows
        self.batch = batch
        self.clip = clip
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
        self.skipped = 0
        self.last_loss = float("nan")

    def train_step(self):
        history, future = self.windows.batch(self.batch)
        loss = F.smooth_l1_loss(self.model(history), future)
        value = loss.item()
        if value != value or value == float("inf"):
            self.skipped += 1
            return
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.last_loss = value

    def fit(self, steps):
        self.model.train()
        for _ in range(steps):
            self.train_step()
        return self.last_loss
