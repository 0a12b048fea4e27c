"""Read five-digit captchas with a small CNN; every image is rendered fresh by the loader's workers."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch.utils.data import DataLoader, Dataset, Sampler

DIGITS = 5
WIDTH, HEIGHT = 128, 40
BATCH_SIZE = 24
EPOCH_SIZE = 4 * BATCH_SIZE   # short epochs, so that the curve is logged often


class CaptchaDataset(Dataset):
    """Item i is always the same captcha; nothing is stored."""

    def __init__(self, epoch_size):
        self.epoch_size = epoch_size
        self.font = ImageFont.load_default()

    def __len__(self):
        return self.epoch_size

    def __getitem__(self, key):
        rng = random.Random(key)
        noise = np.random.default_rng(key)
        text = [rng.randrange(10) for _ in range(DIGITS)]
        canvas = Image.new("L", (WIDTH, HEIGHT), color=235)
        for i, digit in enumerate(text):
            glyph = Image.new("L", (14, 14), color=0)
            ImageDraw.Draw(glyph).text((4, 1), str(digit), fill=255, font=self.font)
            size = rng.randint(26, 34)
            glyph = glyph.resize((size, size), Image.BILINEAR)
            glyph = glyph.rotate(rng.uniform(-25, 25), resample=Image.BILINEAR)
            canvas.paste(rng.randint(0, 90), (4 + i * 24, rng.randint(0, 8)), glyph)
        draw = ImageDraw.Draw(canvas)
        for _ in range(4):
            ends = [rng.randrange(WIDTH), rng.randrange(HEIGHT), rng.randrange(WIDTH), rng.randrange(HEIGHT)]
            draw.line(ends, fill=rng.randint(60, 160), width=1)
        pixels = np.asarray(canvas, dtype=np.float32) / 255.0
        pixels += noise.normal(0.0, 0.06, size=pixels.shape).astype(np.float32)
        return torch.from_numpy(pixels).unsqueeze(0), torch.tensor(text)


class FreshKeys(Sampler):
    """Each epoch hands out keys that were never used before."""

    def __init__(self, epoch_size):
        self.epoch_size = epoch_size
        self.start = 0

    def __len__(self):
        return self.epoch_size

    def __iter__(self):
        start, self.start = self.start, self.start + self.epoch_size
        yield from range(start, start + self.epoch_size)


class CaptchaNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(2 * width * (HEIGHT // 8) * (WIDTH // 8), DIGITS * 10)

    def forward(self, images):
        x = self.features(images).flatten(1)
        return self.head(x).view(-1, DIGITS, 10)


def make_loader():
    return DataLoader(
        CaptchaDataset(EPOCH_SIZE),
        batch_size=BATCH_SIZE,
        sampler=FreshKeys(EPOCH_SIZE),
        num_workers=2,
    )


def train_epoch(model, loader, optimizer, budget):
    losses = []
    for images, text in loader:
        logits = model(images.to(memory_format=torch.channels_last))
        loss = F.cross_entropy(logits.flatten(0, 1), text.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == budget:
            break
    return losses


def train(model, loader, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    curve, done = [], 0
    while done < steps:
        losses = train_epoch(model, loader, optimizer, steps - done)
        done += len(losses)
        curve.append(sum(losses) / len(losses))
    return curve


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = CaptchaNet().to(memory_format=torch.channels_last)
    curve = train(model, make_loader(), args.steps)
    print(f"{len(curve)} epochs, last epoch loss {curve[-1]:.4f}")


if __name__ == "__main__":
    main()
