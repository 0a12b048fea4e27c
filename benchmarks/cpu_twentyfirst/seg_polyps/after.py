"""Polyp segmentation: a decoder trained on top of a pretrained, frozen encoder."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFilter

SIZE = 96
BATCH = 8


def render_frame(rng):
    """One synthetic endoscopy frame, its mask and the number of polyps in it."""
    base = tuple(int(v) for v in rng.integers(90, 170, 3))
    frame = Image.new("RGB", (SIZE, SIZE), base)
    mask = Image.new("L", (SIZE, SIZE), 0)
    draw, draw_mask = ImageDraw.Draw(frame), ImageDraw.Draw(mask)
    for _ in range(6):
        x, y = rng.integers(0, SIZE, 2)
        draw.line([int(x), 0, int(y), SIZE], fill=tuple(v - 25 for v in base), width=2)
    count = int(rng.integers(0, 4))
    for _ in range(count):
        cx, cy = rng.integers(14, SIZE - 14, 2)
        rx, ry = rng.integers(6, 14, 2)
        box = [int(cx - rx), int(cy - ry), int(cx + rx), int(cy + ry)]
        draw.ellipse(box, fill=(min(base[0] + 50, 255), base[1] - 20, base[2] - 20))
        draw_mask.ellipse(box, fill=1)
    frame = frame.filter(ImageFilter.GaussianBlur(1.0))
    pixels = np.asarray(frame, dtype=np.float32) + rng.normal(0, 6, (SIZE, SIZE, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8), np.asarray(mask), count


class Frames:
    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        frames, masks, counts = zip(*(render_frame(self.rng) for _ in range(n)))
        self.frames, self.masks = np.stack(frames), np.stack(masks)
        self.counts = np.array(counts)

    def batch(self, size):
        rows = self.rng.integers(0, len(self.frames), size)
        frames, masks = self.frames[rows], self.masks[rows]
        if self.rng.random() < 0.5:
            frames, masks = frames[:, :, ::-1], masks[:, :, ::-1]
        x = torch.from_numpy(frames.transpose(0, 3, 1, 2).copy()).float().div_(127.5).sub_(1)
        y = torch.from_numpy(masks.copy()).float()
        return x, y, torch.from_numpy(self.counts[rows])


def conv_block(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(),
    )


class Encoder(nn.Module):
    def __init__(self, widths=(24, 48, 96)):
        super().__init__()
        self.stages = nn.ModuleList()
        c_in = 3
        for w in widths:
            self.stages.append(conv_block(c_in, w))
            c_in = w

    def forward(self, x):
        features = []
        for i, stage in enumerate(self.stages):
            x = stage(x if i == 0 else F.max_pool2d(x, 2))
            features.append(x)
        return features


class Decoder(nn.Module):
    def __init__(self, widths=(24, 48, 96), inner=24):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(w, inner, 1) for w in widths)
        self.smooth = nn.Conv2d(inner, inner, 3, padding=1)
        self.head = nn.Conv2d(inner, 1, 1)

    def forward(self, features):
        y = self.lateral[-1](features[-1])
        for lateral, f in zip(list(self.lateral)[-2::-1], features[-2::-1]):
            y = F.interpolate(y, scale_factor=2, mode="nearest") + lateral(f)
        return self.head(F.relu(self.smooth(y))).squeeze(1)


class Segmenter(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = Decoder()

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()          # the encoder stays as it was pretrained
        return self

    def forward(self, x):
        with torch.no_grad():
            features = self.encoder(x)
        return self.decoder(features)


def pretrain_encoder(data, steps=8):
    """Stand-in for the checkpoint: predicts how many polyps a frame shows."""
    encoder, head = Encoder(), nn.Linear(96, 4)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(steps):
        x, _, counts = data.batch(BATCH)
        loss = F.cross_entropy(head(encoder(x)[-1].mean((2, 3))), counts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoder


def dice_bce(logits, target):
    p = logits.sigmoid()
    overlap = 2 * (p * target).sum((1, 2)) + 1
    dice = overlap / (p.sum((1, 2)) + target.sum((1, 2)) + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + 1 - dice.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Frames(300, seed=0)
    model = Segmenter(pretrain_encoder(data)).train()
    optimizer = torch.optim.AdamW(model.decoder.parameters(), lr=2e-3)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, y, _ = data.batch(BATCH)
        loss = dice_bce(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.decoder.parameters(), 1.0)
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
