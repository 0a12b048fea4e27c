"""Reads digit strings off gas-meter photographs (CRNN-like encoder, attention decoder).

The decoder is fed its own guesses part of the time, so it is unrolled one digit at a time.
"""
import argparse
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DIGITS, START, STEPS = 10, 10, 8
HEIGHT, WIDTH = 32, 160

SEGMENTS = torch.tensor([[1, 1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1, 0], [1, 0, 1, 1, 1, 0, 1],
                         [1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 0, 1, 0], [1, 1, 0, 1, 0, 1, 1],
                         [1, 1, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1],
                         [1, 1, 1, 1, 0, 1, 1]], dtype=torch.float32)


def glyphs():
    """Ten seven-segment digits of 24 x 14 pixels."""
    strokes = torch.zeros(7, 24, 14)
    boxes = [(0, 3, 1, 13), (1, 12, 0, 3), (1, 12, 11, 14), (10, 13, 1, 13),
             (12, 23, 0, 3), (12, 23, 11, 14), (21, 24, 1, 13)]
    for k, (a, b, c, d) in enumerate(boxes):
        strokes[k, a:b, c:d] = 1
    return (SEGMENTS @ strokes.flatten(1)).clamp_(max=1).view(DIGITS, 24, 14)


class Meters:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.glyph = glyphs()

    def draw(self, size):
        g = self.g
        digits = torch.randint(0, DIGITS, (size, STEPS), generator=g)
        strip = F.pad(self.glyph[digits], (2, 3, 4, 4)).permute(0, 2, 1, 3).reshape(size, HEIGHT, -1)
        canvas = F.pad(strip, (4, WIDTH - 4 - strip.shape[2]))
        theta = torch.eye(2, 3).repeat(size, 1, 1) + 0.05 * torch.randn(size, 2, 3, generator=g)
        grid = F.affine_grid(theta, (size, 1, HEIGHT, WIDTH), align_corners=False)
        image = F.grid_sample(canvas[:, None], grid, align_corners=False)
        contrast = 0.5 + torch.rand(size, 1, 1, 1, generator=g)
        return image * contrast + 0.15 * torch.randn(image.shape, generator=g), digits


class Reader(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.place = nn.Parameter(0.02 * torch.randn(WIDTH // 4, width))
        self.key = nn.Linear(width, width)
        self.embed = nn.Embedding(DIGITS + 1, 32)
        self.cell = nn.GRUCell(32 + width, width)
        self.out = nn.Linear(2 * width, DIGITS)
        self.width = width

    def forward(self, image, digits=None, own=0.0, generator=None):
        memory = self.conv(image).mean(2).transpose(1, 2) + self.place
        key = self.key(memory)
        state = memory.mean(1)
        token = torch.full((len(image),), START)
        context = torch.zeros_like(state)
        logits = []
        for t in range(STEPS):
            state = self.cell(torch.cat([self.embed(token), context], 1), state)
            score = torch.bmm(key, state[:, :, None]).squeeze(2) / self.width ** 0.5
            context = torch.bmm(score.softmax(1)[:, None], memory).squeeze(1)
            step = self.out(torch.cat([state, context], 1))
            logits.append(step)
            token = step.detach().argmax(1)
            if digits is not None:
                use_own = torch.rand(len(token), generator=generator) < own
                token = torch.where(use_own, token, digits[:, t])
        return torch.stack(logits, 1)


@torch.inference_mode()
def evaluate(model, images, digits):
    model.eval()
    guess = model(images).argmax(2)
    model.train()
    return (guess == digits).float().mean().item(), (guess == digits).all(1).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=24)
    args = ap.parse_args()
    torch.manual_seed(0)
    source = Meters(seed=1)
    held_images, held_digits = Meters(seed=2).draw(64)
    coin = torch.Generator().manual_seed(3)
    model = Reader().to(memory_format=torch.channels_last)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)

    times = []
    for step in range(args.steps):
        begin = time.perf_counter()
        images, digits = source.draw(args.batch)
        own = min(0.5, step / 200)
        logits = model(images, digits, own, coin)
        loss = F.cross_entropy(logits.flatten(0, 1), digits.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        times.append(time.perf_counter() - begin)
        if (step + 1) % 20 == 0:
            digit, whole = evaluate(model, held_images, held_digits)
            print(f"step {step + 1}  loss {loss.item():.4f}  digit {digit:.3f}  string {whole:.3f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
