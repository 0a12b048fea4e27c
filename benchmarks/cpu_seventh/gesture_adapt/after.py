"""Adapts the wrist-sensor encoder to a new wearer's gestures.

The encoder stays as it was trained on the big activity corpus (checkpoint below);
only a new classifier on top is fitted to the wearer's few recordings.
"""
import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS, LENGTH, GESTURES = 6, 400, 8


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(width, width, 1)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x):
        return x + self.conv2(F.gelu(self.norm(self.conv1(x))))


class SensorEncoder(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.stem = nn.Conv1d(CHANNELS, width, 9, stride=2, padding=4)
        self.blocks = nn.Sequential(*[Residual(width, d) for d in (1, 2, 4, 8, 1, 2)])
        self.width = 2 * width

    def forward(self, x):
        h = self.blocks(self.stem(x))
        return torch.cat([h.mean(2), h.amax(2)], 1)


class GestureModel(nn.Module):
    def __init__(self, encoder, gestures):
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Sequential(nn.LayerNorm(encoder.width), nn.Linear(encoder.width, 96),
                                        nn.GELU(), nn.Linear(96, gestures))

    def forward(self, x):
        return self.classifier(self.encoder(x))

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self


def load_encoder(checkpoint: Path):
    encoder = SensorEncoder()
    encoder.load_state_dict(torch.load(checkpoint, weights_only=True))
    return encoder.requires_grad_(False)


def write_checkpoint(path: Path):
    """Stands in for the download of the published weights."""
    torch.manual_seed(42)
    torch.save(SensorEncoder().state_dict(), path)


class Recordings:
    """Wearer's gestures; every draw is jittered, rotated and scaled anew."""

    def __init__(self, per_class, seed):
        g = torch.Generator().manual_seed(seed)
        shapes = torch.Generator().manual_seed(1234)
        t = torch.linspace(0, 4, LENGTH)
        freq = 0.5 + 4 * torch.rand(GESTURES, CHANNELS, generator=shapes)
        phase = 6.3 * torch.rand(GESTURES, CHANNELS, generator=shapes)
        self.label = torch.arange(GESTURES).repeat_interleave(per_class)
        shift = torch.rand(len(self.label), 1, 1, generator=g)
        wave = torch.sin(6.28 * freq[self.label][..., None] * (t + 0.3 * shift) + phase[self.label][..., None])
        self.signal = wave + 0.5 * torch.randn(wave.shape, generator=g)
        self.generator = g

    def draw(self, size):
        g = self.generator
        rows = torch.randint(0, len(self.label), (size,), generator=g)
        x = self.signal[rows]
        scale = 0.8 + 0.4 * torch.rand(size, CHANNELS, 1, generator=g)
        angle = 0.3 * torch.randn(size, 1, 1, generator=g)
        a, b = x[:, 0:1], x[:, 1:2]
        turned = torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), x[:, 2:]], 1)
        return turned * scale + 0.05 * torch.randn(x.shape, generator=g), self.label[rows]


@torch.inference_mode()
def accuracy(model, data):
    model.eval()
    hit = (model(data.signal).argmax(1) == data.label).float().mean().item()
    model.train()
    return hit


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=48)
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        checkpoint = Path(tmp, "encoder.pt")
        write_checkpoint(checkpoint)
        encoder = load_encoder(checkpoint)
    torch.manual_seed(0)
    model = GestureModel(encoder, GESTURES).train()
    train, test = Recordings(20, seed=1), Recordings(12, seed=2)
    opt = torch.optim.AdamW(model.classifier.parameters(), lr=3e-3, weight_decay=0.05)

    times = []
    for step in range(1, args.steps + 1):
        t0 = time.perf_counter()
        x, y = train.draw(args.batch)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step}  loss {loss.item():.5f}")
    print(f"test accuracy {accuracy(model, test):.4f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
