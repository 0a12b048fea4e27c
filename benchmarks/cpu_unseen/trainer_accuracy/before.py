"""Train a residual convnet on synthetic satellite tiles with a small Trainer."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_tiles(n=480, size=32, classes=5, seed=2):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (n,), generator=g)
    base = F.interpolate(torch.randn(n, 4, 8, 8, generator=g), size=size, mode="bilinear",
                         align_corners=False)
    tint = torch.randn(classes, 4, generator=g)
    return TensorDataset(base + tint[labels][:, :, None, None], labels)


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)

    def forward(self, x):
        y = self.conv1(F.relu(self.norm1(x)))
        return x + self.conv2(F.relu(self.norm2(y)))


class TileNet(nn.Module):
    def __init__(self, width=32, blocks=2, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(4, width, 3, padding=1)
        self.blocks = nn.Sequential(*[ResBlock(width) for _ in range(blocks)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


class Callback:
    def on_train_begin(self, trainer): ...
    def on_backward_end(self, trainer, x, y): ...
    def on_step_end(self, trainer): ...
    def on_train_end(self, trainer): ...


class RunningAccuracy(Callback):
    def on_train_begin(self, trainer):
        self.correct = self.seen = 0

    @torch.no_grad()
    def on_backward_end(self, trainer, x, y):
        predictions = trainer.model(x).argmax(dim=1)
        self.correct += (predictions == y).sum().item()
        self.seen += y.numel()

    def on_train_end(self, trainer):
        print(f"running accuracy {self.correct / self.seen:.4f}")


class LossPrinter(Callback):
    def __init__(self, every=20):
        self.every = every

    def on_step_end(self, trainer):
        if trainer.step % self.every == 0:
            print(f"step {trainer.step}: loss {trainer.loss.item():.4f}")


class StepTimer(Callback):
    def on_train_begin(self, trainer):
        self.start = time.perf_counter()

    def on_step_end(self, trainer):
        if trainer.step == 5:
            self.start = time.perf_counter()

    def on_train_end(self, trainer):
        elapsed = time.perf_counter() - self.start
        print(f"mean step {1000 * elapsed / max(1, trainer.step - 5):.2f} ms")


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks
        self.step = 0

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self, loader, max_steps):
        self.model.train()
        self.call("on_train_begin")
        while self.step < max_steps:
            for x, y in loader:
                self.output = self.model(x)
                self.loss = F.cross_entropy(self.output, y)
                self.optimizer.zero_grad()
                self.loss.backward()
                self.call("on_backward_end", x, y)
                self.optimizer.step()
                self.step += 1
                self.call("on_step_end")
                if self.step >= max_steps:
                    break
        self.call("on_train_end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(make_tiles(), batch_size=args.batch_size, shuffle=True)
    model = TileNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    trainer = Trainer(model, optimizer, [RunningAccuracy(), LossPrinter(), StepTimer()])
    trainer.fit(loader, args.steps)
    print(f"final loss {trainer.loss.item():.5f}")


if __name__ == "__main__":
    main()
