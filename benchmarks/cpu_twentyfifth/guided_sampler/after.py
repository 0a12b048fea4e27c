"""Sampling from a diffusion model, guided to a class by a classifier of noisy pictures (DDIM)."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A residual block that is told the time."""

    def __init__(self, cin, cout, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.time = nn.Linear(time, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class TimeEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("rates", torch.exp(-math.log(10000.0) * torch.arange(width // 2) / (width // 2)))
        self.net = nn.Sequential(nn.Linear(width, width), nn.SiLU())

    def forward(self, t):
        angle = t.float().unsqueeze(1) * self.rates
        return self.net(torch.cat([angle.sin(), angle.cos()], dim=1))


class UNet(nn.Module):
    def __init__(self, width=32, time=64):
        super().__init__()
        self.time = TimeEmbedding(time)
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down1 = Block(width, width, time)
        self.shrink1 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.down2 = Block(2 * width, 2 * width, time)
        self.shrink2 = nn.Conv2d(2 * width, 3 * width, 3, stride=2, padding=1)
        self.middle = Block(3 * width, 3 * width, time)
        self.grow2 = nn.ConvTranspose2d(3 * width, 2 * width, 4, stride=2, padding=1)
        self.up2 = Block(4 * width, 2 * width, time)
        self.grow1 = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1)
        self.up1 = Block(2 * width, width, time)
        self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x, t):
        time = self.time(t)
        a = self.down1(self.first(x), time)
        b = self.down2(self.shrink1(a), time)
        c = self.middle(self.shrink2(b), time)
        b = self.up2(torch.cat([self.grow2(c), b], dim=1), time)
        a = self.up1(torch.cat([self.grow1(b), a], dim=1), time)
        return self.last(a)


class Classifier(nn.Module):
    def __init__(self, classes, width=32, time=64):
        super().__init__()
        self.time = TimeEmbedding(time)
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.block1 = Block(width, width, time)
        self.shrink1 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.block2 = Block(2 * width, 2 * width, time)
        self.shrink2 = nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1)
        self.block3 = Block(4 * width, 4 * width, time)
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x, t):
        time = self.time(t)
        x = self.block1(self.first(x), time)
        x = self.block2(self.shrink1(x), time)
        x = self.block3(self.shrink2(x), time)
        return self.head(x.mean((2, 3)))


class Sampler:
    def __init__(self, unet, classifier, times=1000, strides=25, strength=2.0):
        self.unet, self.classifier = unet, classifier
        self.strength = strength
        self.alpha = torch.cumprod(1 - torch.linspace(1e-4, 0.02, times), 0)
        self.times = torch.linspace(times - 1, 0, strides + 1).long().tolist()

    def lean(self, x, t, wanted):
        """The direction in which the wanted class gets likelier."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            logp = F.log_softmax(self.classifier(x, t), dim=-1)
            chosen = logp.gather(1, wanted.unsqueeze(1)).sum()
            return torch.autograd.grad(chosen, x)[0]

    @torch.no_grad()
    def step(self, x, place, wanted):
        now, then = self.times[place], self.times[place + 1]
        t = torch.full((x.size(0),), now)
        here, there = self.alpha[now], self.alpha[then]
        noise = self.unet(x, t) - self.strength * (1 - here).sqrt() * self.lean(x, t, wanted)
        clean = ((x - (1 - here).sqrt() * noise) / here.sqrt()).clamp(-1, 1)
        return there.sqrt() * clean + (1 - there).sqrt() * noise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    unet, classifier = UNet().eval(), Classifier(10).eval()
    sampler = Sampler(unet, classifier)
    strides = len(sampler.times) - 1
    total = 0.0
    for step in range(args.steps):
        place = step % strides
        if place == 0:
            x = torch.randn(args.batch_size, 3, args.size, args.size)
            wanted = torch.randint(10, (args.batch_size,))
        x = sampler.step(x, place, wanted)
        if place == strides - 1 or step == args.steps - 1:
            total += x.abs().mean().item()
    print(f"mean of pictures {total:.5f}")


if __name__ == "__main__":
    main()
