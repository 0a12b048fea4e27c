"""Hinge GAN with self-modulated residual generator on procedural 32x32 glyphs."""
import argparse
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.nn.utils.parametrizations import spectral_norm


def draw_glyphs(n, size, seed):
    rng = np.random.default_rng(seed)
    out = np.empty((n, 1, size, size), dtype=np.float32)
    for i in range(n):
        im = Image.new("L", (size, size), 0)
        d = ImageDraw.Draw(im)
        for _ in range(rng.integers(2, 5)):
            kind = rng.integers(3)
            a, b = sorted(rng.integers(2, size - 2, size=2).tolist()), sorted(rng.integers(2, size - 2, size=2).tolist())
            if kind == 0:
                d.line([a[0], b[0], a[1], b[1]], fill=255, width=2)
            elif kind == 1:
                d.arc([a[0], b[0], a[1] + 3, b[1] + 3], 0, int(rng.integers(120, 360)), fill=220, width=2)
            else:
                d.rectangle([a[0], b[0], a[1], b[1]], outline=200)
        out[i, 0] = np.asarray(im, dtype=np.float32) / 127.5 - 1
    return torch.from_numpy(out)


class SelfModNorm(nn.Module):
    def __init__(self, ch, z_dim):
        super().__init__()
        self.norm = nn.InstanceNorm2d(ch, affine=False)
        self.gamma = nn.Linear(z_dim, ch)
        self.beta = nn.Linear(z_dim, ch)

    def forward(self, x, z):
        return self.norm(x) * (1 + self.gamma(z)[..., None, None]) + self.beta(z)[..., None, None]


class GBlock(nn.Module):
    def __init__(self, cin, cout, z_dim):
        super().__init__()
        self.n1, self.n2 = SelfModNorm(cin, z_dim), SelfModNorm(cout, z_dim)
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1)

    def forward(self, x, z):
        h = F.interpolate(F.relu(self.n1(x, z)), scale_factor=2)
        h = self.c2(F.relu(self.n2(self.c1(h), z)))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    def __init__(self, z_dim=64, ch=32):
        super().__init__()
        self.z_dim = z_dim
        self.fc = nn.Linear(z_dim, 4 * ch * 16)
        self.blocks = nn.ModuleList([GBlock(4 * ch, 2 * ch, z_dim), GBlock(2 * ch, ch, z_dim), GBlock(ch, ch // 2, z_dim)])
        self.to_img = nn.Conv2d(ch // 2, 1, 3, padding=1)

    def forward(self, z):
        h = self.fc(z).view(len(z), -1, 4, 4)
        for block in self.blocks:
            h = block(h, z)
        return torch.tanh(self.to_img(F.relu(h)))


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        def sn(cin, cout, stride):
            return spectral_norm(nn.Conv2d(cin, cout, 4 if stride == 2 else 3, stride=stride, padding=1))
        self.body = nn.Sequential(
            sn(1, ch, 2), nn.LeakyReLU(0.1),
            sn(ch, 2 * ch, 2), nn.LeakyReLU(0.1),
            sn(2 * ch, 4 * ch, 2), nn.LeakyReLU(0.1),
            sn(4 * ch, 4 * ch, 1), nn.LeakyReLU(0.1))
        self.out = spectral_norm(nn.Linear(4 * ch, 1))

    def forward(self, x):
        return self.out(self.body(x).sum(dim=(2, 3))).squeeze(1)


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        torch._foreach_lerp_(self.shadow, list(model.parameters()), 1 - self.decay)


class Trainer:
    def __init__(self, args, data):
        self.args, self.data = args, data
        self.G, self.D = Generator(), Discriminator()
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=args.g_lr, betas=(0.0, 0.9))
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=args.d_lr, betas=(0.0, 0.9))
        self.ema = Ema(self.G, 0.99)
        self.sample_rng = torch.Generator().manual_seed(args.seed)

    def real_batch(self):
        idx = torch.randint(0, len(self.data), (self.args.batch,), generator=self.sample_rng)
        return self.data[idx]

    def noise(self):
        return torch.randn(self.args.batch, self.G.z_dim, generator=self.sample_rng)

    def d_step(self):
        real, fake = self.real_batch(), self.G(self.noise())
        d_real, d_fake = self.D(real), self.D(fake)
        loss = F.relu(1 - d_real).mean() + F.relu(1 + d_fake).mean()
        self.d_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.d_opt.step()
        return loss.item()

    def g_step(self):
        for p in self.D.parameters():
            p.requires_grad_(False)
        loss = -self.D(self.G(self.noise())).mean()
        self.g_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.g_opt.step()
        for p in self.D.parameters():
            p.requires_grad_(True)
        self.ema.update(self.G)
        return loss.item()

    @torch.no_grad()
    def save_grid(self, path, n=16):
        z = torch.randn(n, self.G.z_dim, generator=torch.Generator().manual_seed(1))
        imgs = ((self.G(z) + 1) * 127.5).byte().squeeze(1)
        side = int(math.sqrt(n))
        grid = imgs.view(side, side, 32, 32).permute(0, 2, 1, 3).reshape(side * 32, side * 32)
        Image.fromarray(grid.numpy()).save(path)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=40)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--n-critic", type=int, default=3)
    ap.add_argument("--g-lr", type=float, default=2e-4)
    ap.add_argument("--d-lr", type=float, default=4e-4)
    ap.add_argument("--images", type=int, default=2000)
    ap.add_argument("--sample-every", type=int, default=20)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    trainer = Trainer(args, draw_glyphs(args.images, 32, args.seed))
    outdir = tempfile.mkdtemp(prefix="glyph_gan_")
    hist, t0 = [], time.time()
    for it in range(1, args.iters + 1):
        d_loss = sum(trainer.d_step() for _ in range(args.n_critic)) / args.n_critic
        g_loss = trainer.g_step()
        hist.append((d_loss, g_loss))
        if it % 10 == 0:
            d, g = np.mean(hist[-10:], axis=0)
            print(f"[{it:4d}/{args.iters}] D {d:.4f}  G {g:.4f}  ({(time.time() - t0) / it:.3f} s/it)")
        if it % args.sample_every == 0:
            trainer.save_grid(os.path.join(outdir, f"sample_{it:05d}.png"))
    print("samples in", outdir)


if __name__ == "__main__":
    main()
