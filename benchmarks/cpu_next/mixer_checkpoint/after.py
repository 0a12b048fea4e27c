"""MLP-Mixer on small satellite chips, driven by a Trainer with callbacks."""
import argparse
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_mlp = Mlp(tokens, tokens * 2)
        self.channel_mlp = Mlp(dim, dim * 4)

    def forward(self, x):
        x = x + self.token_mlp(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mlp(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, image=64, patch=8, bands=4, dim=128, depth=6, classes=8):
        super().__init__()
        self.embed = nn.Conv2d(bands, dim, patch, stride=patch)
        self.blocks = nn.ModuleList(MixerBlock((image // patch) ** 2, dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


@dataclass
class State:
    step: int = 0
    loss: float = 0.0
    seconds: float = 0.0


class Callback:
    def on_step_end(self, state):
        pass

    def on_fit_end(self, state):
        pass


class PrintLoss(Callback):
    def __init__(self, every):
        self.every = every

    def on_step_end(self, state):
        if state.step % self.every == 0:
            print(f"step {state.step} loss {state.loss:.4f}")


class StepClock(Callback):
    def __init__(self, skip=5):
        self.skip, self.first, self.counted = skip, None, 0

    def on_step_end(self, state):
        now = time.perf_counter()
        if state.step == self.skip:
            self.first = now
        elif self.first is not None:
            self.counted += 1
            state.seconds = (now - self.first) / self.counted

    def on_fit_end(self, state):
        print(f"mean step {state.seconds * 1000:.2f} ms")


class Trainer:
    def __init__(self, model, optimizer, scheduler, callbacks):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.callbacks = callbacks
        self.state = State()

    def fit(self, batches, steps):
        self.model.train()
        for x, y in batches:
            loss = F.cross_entropy(self.model(x), y, label_smoothing=0.1)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.state.step += 1
            self.state.loss = loss.item()
            for cb in self.callbacks:
                cb.on_step_end(self.state)
            if self.state.step >= steps:
                break
        for cb in self.callbacks:
            cb.on_fit_end(self.state)


def chips(batch, seed):
    gen = torch.Generator().manual_seed(seed)
    texture = torch.randn(8, 4, 64, 64, generator=gen)
    while True:
        y = torch.randint(8, (batch,), generator=gen)
        yield 0.5 * texture[y] + torch.randn(batch, 4, 64, 64, generator=gen), y


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=12)
    cfg = ap.parse_args()
    torch.manual_seed(0)
    net = Mixer()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=cfg.steps + 1)
    Trainer(net, opt, sched, [PrintLoss(20), StepClock()]).fit(chips(cfg.batch, 1), cfg.steps)
