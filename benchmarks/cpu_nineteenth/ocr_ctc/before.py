"""Text-line recognition: CRNN with CTC loss, running character error rate."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 "
BLANK = 0
HEIGHT, WIDTH = 24, 256
BATCH = 24


class LineImages:
    """Renders random text lines once and serves batches of them."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        font = ImageFont.load_default()
        self.images = np.zeros((n, HEIGHT, WIDTH), dtype=np.uint8)
        self.texts = []
        for i in range(n):
            length = int(self.rng.integers(12, 28))
            text = "".join(ALPHABET[k] for k in self.rng.integers(0, len(ALPHABET), length))
            canvas = Image.new("L", (WIDTH, HEIGHT), 235)
            ImageDraw.Draw(canvas).text((4, 6), text, fill=20, font=font)
            noise = self.rng.normal(0, 8, (HEIGHT, WIDTH))
            self.images[i] = np.clip(np.asarray(canvas) + noise, 0, 255)
            self.texts.append(text)

    def batch(self, size):
        rows = self.rng.integers(0, len(self.texts), size)
        x = torch.from_numpy(self.images[rows]).float().div_(127.5).sub_(1.0)
        texts = [self.texts[r] for r in rows]
        targets = torch.tensor([ALPHABET.index(c) + 1 for t in texts for c in t])
        lengths = torch.tensor([len(t) for t in texts])
        return x.unsqueeze(1), targets, lengths, texts


class CRNN(nn.Module):
    def __init__(self, n_classes, hidden=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d((2, 1)),
            nn.Conv2d(32, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d((2, 1)),
        )
        self.rnn = nn.LSTM(48 * (HEIGHT // 8), hidden, bidirectional=True)
        self.out = nn.Linear(2 * hidden, n_classes)

    def forward(self, x):
        f = self.conv(x)                                 # B, C, H', T
        f = f.permute(3, 0, 1, 2).flatten(2)             # T, B, C * H'
        y, _ = self.rnn(f)
        return self.out(y).log_softmax(2)


def greedy_decode(log_probs):
    steps, batch, _ = log_probs.shape
    decoded = []
    for b in range(batch):
        chars = []
        previous = BLANK
        for t in range(steps):
            best = log_probs[t, b].argmax()
            if best != BLANK and best != previous:
                chars.append(ALPHABET[best - 1])
            previous = best
        decoded.append("".join(chars))
    return decoded


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        diag, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            diag, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diag + (ca != cb))
    return row[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = LineImages(512, seed=0)
    model = CRNN(len(ALPHABET) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    times = []
    cer = 1.0
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, targets, lengths, texts = data.batch(BATCH)
        log_probs = model(x)
        frames = torch.full((BATCH,), log_probs.shape[0], dtype=torch.long)
        loss = F.ctc_loss(log_probs, targets, frames, lengths, blank=BLANK, zero_infinity=True)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

        guesses = greedy_decode(log_probs.detach())
        errors = sum(edit_distance(g, t) for g, t in zip(guesses, texts))
        cer = 0.95 * cer + 0.05 * errors / int(lengths.sum())
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f} cer {cer:.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
