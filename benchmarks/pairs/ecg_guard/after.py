"""Train an ECG classifier with a small trainer: callbacks, gradient accumulation, mixed precision."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, outputs, 9, stride, 4, bias=False)
        self.conv2 = nn.Conv1d(outputs, outputs, 9, 1, 4, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm1d(outputs), nn.BatchNorm1d(outputs)
        self.skip = nn.Conv1d(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.skip(x))


class ECGNet(nn.Module):
    def __init__(self, leads, width, blocks, classes):
        super().__init__()
        self.stem = nn.Conv1d(leads, width, 15, 2, 7)
        layers, channels = [], width
        for stage in range(4):
            for i in range(blocks):
                outputs = width * 2**stage
                layers.append(Residual(channels, outputs, 2 if i == 0 else 1))
                channels = outputs
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).mean(-1))


class Callback:
    def on_backward_end(self, trainer):
        pass

    def on_step_end(self, trainer):
        pass


class LossMeter(Callback):
    def __init__(self, every):
        self.every, self.total, self.values = every, 0.0, []

    def on_backward_end(self, trainer):
        self.total = self.total + trainer.loss

    def on_step_end(self, trainer):
        if trainer.step % self.every == 0:
            self.values.append(float(self.total) / self.every)
            self.total = 0.0


class TerminateOnNaN(Callback):
    """Stops the training with the name of the parameter whose gradient is not finite."""

    def on_backward_end(self, trainer):
        if torch.isfinite(torch.nn.utils.get_total_norm([p.grad for p in trainer.model.parameters()])):
            return
        for name, parameter in trainer.model.named_parameters():
            if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                raise RuntimeError(f"gradient of {name} is not finite at step {trainer.step}")


class Trainer:
    def __init__(self, model, optimizer, scheduler, accumulate, callbacks, device):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.accumulate, self.callbacks, self.device = accumulate, callbacks, device
        self.step, self.loss = 0, None

    def call(self, hook):
        for callback in self.callbacks:
            getattr(callback, hook)(self)

    def training_step(self, signals, labels):
        with torch.autocast(self.device.type, torch.bfloat16):
            return F.binary_cross_entropy_with_logits(self.model(signals).float(), labels) / self.accumulate

    def fit_step(self, batches):
        for signals, labels in batches:
            loss = self.training_step(signals, labels)
            loss.backward()
            self.loss = loss.detach()
            self.call("on_backward_end")
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.scheduler.step()
        self.step += 1
        self.call("on_step_end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, length, width, blocks, accumulate = (2, 256, 8, 1, 2) if args.small else (32, 2048, 64, 5, 4)

    model = ECGNet(12, width, blocks, 26).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    meter = LossMeter(every=10 if not args.small else 1)
    trainer = Trainer(model, optimizer, scheduler, accumulate, [meter, TerminateOnNaN()], device)
    signals = torch.randn(8, batch, 12, length, device=device)
    labels = torch.randint(2, (8, batch, 26), device=device).float()
    for step in range(WARMUP + args.steps):
        first = step * accumulate
        trainer.fit_step([(signals[(first + i) % 8], labels[(first + i) % 8]) for i in range(accumulate)])
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    print("loss", meter.values[-1])
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
