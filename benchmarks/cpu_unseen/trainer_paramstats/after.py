"""Predict taxi fares with an MLP on embeddings; a Trainer with callbacks logs to JSON lines."""
import argparse
import json
import os
import tempfile
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

ZONES = 300


def make_trips(n=6000, seed=5):
    g = torch.Generator().manual_seed(seed)
    zones = torch.randint(0, ZONES, (n, 2), generator=g)
    dense = torch.randn(n, 12, generator=g)
    place = torch.randn(ZONES, 2, generator=g)
    distance = (place[zones[:, 0]] - place[zones[:, 1]]).norm(dim=1)
    fare = 3 + 2.5 * distance + 0.5 * dense[:, 0].abs() + 0.1 * dense[:, 1]
    return TensorDataset(zones, dense, fare)


class FareNet(nn.Module):
    def __init__(self, embedding=64, width=512, depth=3):
        super().__init__()
        self.pickup = nn.Embedding(ZONES, embedding)
        self.dropoff = nn.Embedding(ZONES, embedding)
        layers, size = [], 2 * embedding + 12
        for _ in range(depth):
            layers += [nn.Linear(size, width), nn.LayerNorm(width), nn.ReLU()]
            size = width
        self.body = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, zones, dense):
        parts = [self.pickup(zones[:, 0]), self.dropoff(zones[:, 1]), dense]
        return self.body(torch.cat(parts, dim=1)).squeeze(1)


class Callback:
    def on_fit_start(self, trainer):
        pass

    def on_after_backward(self, trainer):
        pass

    def on_fit_end(self, trainer):
        pass


class ParameterMonitor(Callback):
    """Weight and gradient distributions, for the dashboard."""

    def __init__(self, path, every=50, bins=32):
        self.path, self.every, self.bins = path, every, bins

    def on_fit_start(self, trainer):
        self.file = open(self.path, "w")

    def describe(self, tensor):
        flat = tensor.detach().flatten()
        levels = torch.quantile(flat, torch.tensor([0.05, 0.5, 0.95]))
        return {
            "mean": flat.mean().item(),
            "std": flat.std().item(),
            "quantiles": levels.tolist(),
            "histogram": torch.histc(flat, bins=self.bins).tolist(),
        }

    def on_after_backward(self, trainer):
        if trainer.step % self.every != 0:
            return
        record = {"step": trainer.step}
        for name, parameter in trainer.model.named_parameters():
            record[name] = self.describe(parameter)
            record[name + ".grad"] = self.describe(parameter.grad)
        self.file.write(json.dumps(record) + "\n")

    def on_fit_end(self, trainer):
        self.file.close()


class Trainer:
    def __init__(self, model, max_steps, lr=1e-3, callbacks=()):
        self.model, self.max_steps, self.callbacks = model, max_steps, callbacks
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.criterion = nn.SmoothL1Loss()
        self.step = 0

    def notify(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def fit(self, loader):
        self.notify("on_fit_start")
        start = time.perf_counter()
        while self.step < self.max_steps:
            for zones, dense, fare in loader:
                if self.step == 5:
                    start = time.perf_counter()
                loss = self.criterion(self.model(zones, dense), fare)
                self.optimizer.zero_grad()
                loss.backward()
                self.notify("on_after_backward")
                self.optimizer.step()
                self.step += 1
                if self.step >= self.max_steps:
                    break
        elapsed = time.perf_counter() - start
        self.notify("on_fit_end")
        print(f"final loss {loss.item():.5f}")
        print(f"mean step {1000 * elapsed / max(1, self.step - 5):.2f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch-size", type=int, default=512)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(make_trips(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    with tempfile.TemporaryDirectory() as folder:
        monitor = ParameterMonitor(os.path.join(folder, "params.jsonl"))
        Trainer(FareNet(), args.steps, callbacks=[monitor]).fit(loader)
        with open(monitor.path) as f:
            print(f"{sum(1 for _ in f)} records logged")


if __name__ == "__main__":
    main()
