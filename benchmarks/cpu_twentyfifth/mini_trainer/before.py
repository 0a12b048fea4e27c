"""A trainer with arguments, callbacks and a log file, written from scratch; it trains a small language model."""
import argparse
import json
import math
import os
import tempfile
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Arguments:
    steps: int = 50
    batch_size: int = 6
    context: int = 48
    lr: float = 1e-3
    warmup: int = 10
    clip: float = 1.0
    logging_steps: int = 25
    folder: str = ""


class Text(Dataset):
    """Letters drawn by chance, each depending on the one before."""

    def __init__(self, count, context, letters=80, seed=0):
        gen = torch.Generator().manual_seed(seed)
        following = torch.randint(letters, (letters, 4), generator=gen)
        choice = torch.randint(4, (count, context + 1), generator=gen)
        rows = torch.zeros(count, context + 1, dtype=torch.long)
        for i in range(1, context + 1):
            rows[:, i] = following[rows[:, i - 1], choice[:, i]]
        self.rows, self.letters = rows, letters

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, letters, context, width=192, layers=5, heads=6):
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)

    def forward(self, rows):
        x = self.letters(rows[:, :-1]) + self.places.weight[:rows.size(1) - 1]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


class Callback:
    def on_step_end(self, trainer):
        pass

    def on_log(self, trainer):
        pass


class LossLog(Callback):
    def __init__(self):
        self.total = torch.zeros(())

    def on_step_end(self, trainer):
        self.total += trainer.loss

    def on_log(self, trainer):
        trainer.record["loss"] = self.total.item() / trainer.step


class WeightLog(Callback):
    """Histograms and norms of weights and gradients, for the curves of a dashboard."""

    def __init__(self, bins=64):
        self.bins = bins
        self.latest = {}

    @torch.no_grad()
    def describe(self, tensor):
        low, high = torch.aminmax(tensor)
        return {
            "low": low, "high": high, "norm": tensor.norm(),
            "counts": torch.histc(tensor, self.bins, low.item(), high.item()),
        }

    def on_step_end(self, trainer):
        for name, p in trainer.model.named_parameters():
            self.latest[name] = self.describe(p)
            self.latest[name + ".grad"] = self.describe(p.grad)

    def on_log(self, trainer):
        trainer.record["spread"] = {
            name: {key: value.tolist() for key, value in part.items()} for name, part in self.latest.items()}


class Trainer:
    def __init__(self, model, args, data, callbacks):
        self.model, self.args, self.callbacks = model, args, callbacks
        self.loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.rate)
        self.step, self.loss, self.record = 0, None, {}

    def rate(self, step):
        if step < self.args.warmup:
            return (step + 1) / self.args.warmup
        done = (step - self.args.warmup) / max(1, self.args.steps - self.args.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))

    def call(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def training_step(self, rows):
        loss = self.model(rows)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach()

    def train(self):
        path = os.path.join(self.args.folder, "log.jsonl")
        self.model.train()
        with open(path, "w") as file:
            while self.step < self.args.steps:
                for rows in self.loader:
                    self.loss = self.training_step(rows)
                    self.step += 1
                    self.call("on_step_end")
                    if self.step % self.args.logging_steps == 0:
                        self.record = {"step": self.step}
                        self.call("on_log")
                        file.write(json.dumps(self.record) + "\n")
                    self.optimizer.zero_grad(set_to_none=True)
                    if self.step >= self.args.steps:
                        break
        return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--logging-steps", type=int, default=25)
    options = parser.parse_args()

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        args = Arguments(steps=options.steps, logging_steps=options.logging_steps, folder=folder)
        data = Text(600, args.context)
        model = LanguageModel(data.letters, args.context)
        losses = LossLog()
        trainer = Trainer(model, args, data, [losses, WeightLog()])
        path = trainer.train()
        norms = 0.0
        with open(path) as file:
            for line in file:
                norms += sum(part["norm"] for part in json.loads(line)["spread"].values())
    print(f"mean loss {losses.total.item() / args.steps:.5f} logged norms {norms:.3f}")


if __name__ == "__main__":
    main()
