"""DCGAN on 32x32 sketches of geometric figures (hinge loss, spectral norm in the critic, EMA of the generator)."""
import argparse
import copy
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset


def draw_sketches(n, size=32, seed=0):
    rng = np.random.default_rng(seed)
    out = np.empty((n, 3, size, size), dtype=np.float32)
    for i in range(n):
        img = Image.new("RGB", (size, size), tuple(int(v) for v in rng.integers(180, 256, 3)))
        d = ImageDraw.Draw(img)
        for _ in range(rng.integers(1, 4)):
            x0, y0 = rng.integers(0, size - 10, 2)
            w, h = rng.integers(6, 20, 2)
            colour = tuple(int(v) for v in rng.integers(0, 150, 3))
            box = [int(x0), int(y0), int(x0 + w), int(y0 + h)]
            (d.ellipse if rng.random() < 0.5 else d.rectangle)(box, outline=colour, width=2)
        out[i] = np.asarray(img, dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1.0
    return torch.from_numpy(out)


class Generator(nn.Module):
    def __init__(self, z=64, ngf=32):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z, ngf * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
            nn.Upsample(scale_factor=2), nn.Conv2d(ngf * 4, ngf * 4, 3, 1, 1, bias=False),
            nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
            nn.Upsample(scale_factor=2), nn.Conv2d(ngf * 4, ngf * 2, 3, 1, 1, bias=False),
            nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
            nn.Upsample(scale_factor=2), nn.Conv2d(ngf * 2, ngf, 3, 1, 1, bias=False),
            nn.BatchNorm2d(ngf), nn.ReLU(True),
            nn.Conv2d(ngf, 3, 3, 1, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Critic(nn.Module):
    def __init__(self, ndf=24):
        super().__init__()
        sn = spectral_norm
        self.net = nn.Sequential(
            sn(nn.Conv2d(3, ndf, 4, 2, 1)), nn.LeakyReLU(0.2),
            sn(nn.Conv2d(ndf, ndf * 2, 4, 2, 1)), nn.LeakyReLU(0.2),
            sn(nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1)), nn.LeakyReLU(0.2),
        )
        self.out = sn(nn.Linear(ndf * 4 * 16, 1))

    def forward(self, x):
        return self.out(self.net(x).flatten(1)).squeeze(1)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)) and not hasattr(m, "parametrizations"):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class EMA:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1 - self.decay)
        for e, b in zip(self.model.buffers(), model.buffers()):
            e.copy_(b)


def critic_loss(real_score, fake_score):
    return F.relu(1 - real_score).mean() + F.relu(1 + fake_score).mean()


def generator_loss(fake_score):
    return -fake_score.mean()


def save_grid(images, path, cols=8):
    imgs = ((images.clamp(-1, 1) + 1) * 127.5).byte().permute(0, 2, 3, 1).numpy()
    rows = [np.concatenate(imgs[i: i + cols], axis=1) for i in range(0, len(imgs), cols)]
    Image.fromarray(np.concatenate(rows, axis=0)).save(path)


def train(opt):
    torch.manual_seed(opt.seed)
    data = DataLoader(TensorDataset(draw_sketches(opt.images)), opt.batch, shuffle=True, drop_last=True)
    netG, netD = Generator(opt.nz), Critic()
    netG.apply(weights_init)
    optG = torch.optim.Adam(netG.parameters(), lr=opt.lr_g, betas=(0.0, 0.99))
    optD = torch.optim.Adam(netD.parameters(), lr=opt.lr_d, betas=(0.0, 0.99))
    ema = EMA(netG, 0.995)
    fixed = torch.randn(16, opt.nz)

    step = 0
    for epoch in range(opt.epochs):
        start, sum_d, sum_g = time.time(), 0.0, 0.0
        for (real,) in data:
            # critic
            netD.requires_grad_(True)
            z = torch.randn(real.size(0), opt.nz)
            fake = netG(z)
            lossD = critic_loss(netD(real), netD(fake))
            optD.zero_grad()
            lossD.backward()
            optD.step()

            # generator
            netD.requires_grad_(False)
            z = torch.randn(real.size(0), opt.nz)
            lossG = generator_loss(netD(netG(z)))
            optG.zero_grad()
            lossG.backward()
            optG.step()
            ema.update(netG)

            sum_d += lossD.item()
            sum_g += lossG.item()
            step += 1
        n = len(data)
        print(f"epoch {epoch}  D {sum_d / n:.3f}  G {sum_g / n:.3f}  {(time.time() - start) / n * 1e3:.0f} ms/step",
              flush=True)
    with torch.no_grad():
        samples = ema.model(fixed)
    path = os.path.join(opt.out or tempfile.gettempdir(), "sketches.png")
    save_grid(samples, path)
    print(f"{step} steps, samples in {path}, mean {samples.mean():.3f} std {samples.std():.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--images", type=int, default=416)
    ap.add_argument("--nz", type=int, default=64)
    ap.add_argument("--lr-g", type=float, default=2e-4)
    ap.add_argument("--lr-d", type=float, default=4e-4)
    ap.add_argument("--out", default="")
    ap.add_argument("--seed", type=int, default=3)
    train(ap.parse_args())


if __name__ == "__main__":
    main()
