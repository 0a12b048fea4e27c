"""Small random search over optimiser settings for a CNN, all trials in one process.

Every trial starts from the same initial weights; activation health (share of dead units,
spread of the outputs) is tracked per layer to explain why a setting fails.
"""
import argparse
import copy
import itertools
import json
import math
import random
import time
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F


def synth_images(n, size, n_classes, seed):
    g = torch.Generator().manual_seed(seed)
    protos = F.interpolate(torch.randn(n_classes, 3, 6, 6, generator=g), size=(size, size), mode="bilinear")
    y = torch.randint(n_classes, (n,), generator=g)
    x = protos[y] + 0.8 * torch.randn(n, 3, size, size, generator=g)
    return x, y


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.act = nn.ReLU()

    def forward(self, x):
        h = self.act(self.bn1(self.conv1(x)))
        return self.act(x + self.bn2(self.conv2(h)))


class SmallResNet(nn.Module):
    def __init__(self, n_classes, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.stage1 = ResBlock(width)
        self.down = nn.Sequential(nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False),
                                  nn.BatchNorm2d(2 * width), nn.ReLU())
        self.stage2 = ResBlock(2 * width)
        self.dropout = nn.Dropout(0.0)
        self.fc = nn.Linear(2 * width, n_classes)

    def forward(self, x):
        x = self.stage2(self.down(self.stage1(self.stem(x))))
        return self.fc(self.dropout(x.mean((2, 3))))


class ActivationMonitor:
    """Per-layer activation statistics on the first images of every training batch."""

    def __init__(self, model):
        self.stats = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def record(module, inputs, output):
            if not module.training:
                return
            out = output.detach()[:16]
            unit = out.transpose(0, 1).flatten(1)
            dead = (unit.amax(1) <= 0).float().mean()
            var, mean = torch.var_mean(unit, dim=1)
            self.stats[name].append((dead.item(), mean.mean().item(), var.mean().sqrt().item()))
        return record

    def summary(self):
        out = {}
        for name, rows in self.stats.items():
            dead, mean, std = (sum(c) / len(c) for c in zip(*rows))
            out[name] = {"dead": round(dead, 4), "mean": round(mean, 4), "std": round(std, 4)}
        return out


class Sweep:
    SPACE = {
        "lr": [3e-4, 1e-3, 3e-3, 1e-2],
        "optimizer": ["sgd", "adamw"],
        "weight_decay": [0.0, 1e-3],
        "dropout": [0.0, 0.2],
    }

    def __init__(self, args):
        self.args = args
        self.train = synth_images(args.train_size, args.image_size, args.classes, seed=0)
        self.valid = synth_images(128, args.image_size, args.classes, seed=0)
        self.model = SmallResNet(args.classes)
        self.initial = copy.deepcopy(self.model.state_dict())
        grid = [dict(zip(self.SPACE, v)) for v in itertools.product(*self.SPACE.values())]
        self.trials = random.Random(args.seed).sample(grid, args.trials)

    def make_optimizer(self, hp):
        p = self.model.parameters()
        if hp["optimizer"] == "sgd":
            return torch.optim.SGD(p, lr=10 * hp["lr"], momentum=0.9, weight_decay=hp["weight_decay"], nesterov=True)
        return torch.optim.AdamW(p, lr=hp["lr"], weight_decay=hp["weight_decay"])

    def batches(self, generator):
        x, y = self.train
        for idx in torch.randperm(len(y), generator=generator).split(self.args.batch_size)[:self.args.steps]:
            yield x[idx], y[idx]

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        x, y = self.valid
        acc = (self.model(x).argmax(1) == y).float().mean().item()
        self.model.train()
        return acc

    def run_trial(self, hp):
        self.model.load_state_dict(self.initial)
        self.model.dropout.p = hp["dropout"]
        self.model.train()
        monitor = ActivationMonitor(self.model)
        opt = self.make_optimizer(hp)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, self.args.steps)
        torch.manual_seed(self.args.seed)
        losses = []
        for x, y in self.batches(torch.Generator().manual_seed(self.args.seed)):
            loss = F.cross_entropy(self.model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                break
        acc = self.evaluate()
        return {"hp": hp, "loss": losses[-1], "acc": acc, "activations": monitor.summary()}

    def run(self):
        results = []
        for k, hp in enumerate(self.trials):
            tic = time.perf_counter()
            r = self.run_trial(hp)
            results.append(r)
            print(f"trial {k:2d}  loss {r['loss']:.4f}  acc {r['acc']:.3f}  "
                  f"{time.perf_counter() - tic:.2f}s  {json.dumps(hp)}")
        return sorted(results, key=lambda r: -r["acc"])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--trials", type=int, default=10)
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--train-size", type=int, default=640)
    ap.add_argument("--image-size", type=int, default=32)
    ap.add_argument("--classes", type=int, default=10)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    results = Sweep(args).run()
    best = results[0]
    print(f"best acc {best['acc']:.3f} loss {best['loss']:.5f} with {best['hp']}")
    for name, row in best["activations"].items():
        print(f"  {name:12s} {row}")


if __name__ == "__main__":
    main()
