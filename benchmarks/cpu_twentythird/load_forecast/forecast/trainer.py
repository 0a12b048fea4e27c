"""Training loop that leaves out batches whose loss is not finite."""

import copy

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

    def _capture(self):
        return copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))

    def _rewind(self, saved):
        weights, moments = saved
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(moments)

    def train_step(self):
        history, future = self.windows.batch(self.batch)
        saved = self._capture()
        loss = F.smooth_l1_loss(self.model(history), future)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        value = loss.item()
        if value != value or value == float("inf"):
            self._rewind(saved)
            self.skipped += 1
        else:
            self.last_loss = value

    def fit(self, steps):
        self.model.train()
        for _ in range(steps):
            self.train_step()
        return self.last_loss
