"""3-D U-Net organ segmentation on synthetic CT volumes, random patches with augmentation."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def phantom(shape, rng):
    """CT-like volume in HU with two organs: returns float image and uint8 label."""
    d, h, w = shape
    z, y, x = np.meshgrid(*(np.linspace(-1, 1, s, dtype=np.float32) for s in shape), indexing="ij")
    img = np.full(shape, -900, np.float32)
    img[(x / 0.85) ** 2 + (y / 0.7) ** 2 < 1] = 20
    lab = np.zeros(shape, np.uint8)
    for k, hu in ((1, 110), (2, 60)):
        c = rng.uniform(-0.3, 0.3, 3)
        r = rng.uniform(0.2, 0.4, 3)
        m = ((z - c[0]) / r[0]) ** 2 + ((y - c[1]) / r[1]) ** 2 + ((x - c[2]) / r[2]) ** 2 < 1
        img[m] = hu
        lab[m] = k
    img += rng.normal(0, 25, shape).astype(np.float32)
    return torch.from_numpy(img), torch.from_numpy(lab)


class WindowLevel:
    def __init__(self, lo=-200.0, hi=300.0):
        self.lo, self.hi = lo, hi

    def __call__(self, img):
        return ((img - self.lo) / (self.hi - self.lo)).clamp_(0, 1)


class RandAffine3d:
    """In-plane rotation, isotropic zoom and left-right flip."""

    def __init__(self, max_deg=15.0, zoom=(0.85, 1.15)):
        self.max_rad, self.zoom = math.radians(max_deg), zoom

    def draw(self):
        a = (2 * torch.rand(()).item() - 1) * self.max_rad
        s = self.zoom[0] + (self.zoom[1] - self.zoom[0]) * torch.rand(()).item()
        f = -1.0 if torch.rand(()) < 0.5 else 1.0
        return torch.tensor([[f * s * math.cos(a), -s * math.sin(a), 0, 0],
                             [f * s * math.sin(a), s * math.cos(a), 0, 0],
                             [0, 0, s, 0]])

    def __call__(self, img, lab, theta):
        grid = F.affine_grid(theta[None], (1, 1, *img.shape), align_corners=False)
        img = F.grid_sample(img[None, None], grid, padding_mode="border", align_corners=False)[0, 0]
        lab = F.grid_sample(lab[None, None].float(), grid, mode="nearest", align_corners=False)[0, 0]
        return img, lab.to(torch.uint8)


class RandIntensity:
    def draw(self):
        return torch.exp(0.3 * (2 * torch.rand(()) - 1)), 0.9 + 0.2 * torch.rand(())

    def __call__(self, img, gamma, gain):
        return (img.pow(gamma) * gain).clamp_(0, 1)


class RandCrop3d:
    def __init__(self, patch):
        self.patch = patch

    def draw(self, shape):
        return [int(torch.randint(s - p + 1, ())) for s, p in zip(shape, self.patch)]

    def __call__(self, img, lab, corner):
        box = tuple(slice(c, c + p) for c, p in zip(corner, self.patch))
        return img[box], lab[box]


class CTPatches(Dataset):
    def __init__(self, n, shape, patch, samples, seed):
        rng = np.random.default_rng(seed)
        window = WindowLevel()
        self.cases = []
        for _ in range(n):
            img, lab = phantom(shape, rng)
            self.cases.append((window(img), lab))
        self.samples = samples
        self.affine, self.intensity, self.crop = RandAffine3d(), RandIntensity(), RandCrop3d(patch)

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        img, lab = self.cases[i % len(self.cases)]
        theta, intensity = self.affine.draw(), self.intensity.draw()
        corner = self.crop.draw(img.shape)
        img, lab = self.affine(img, lab, theta)
        img = self.intensity(img, *intensity)
        img, lab = self.crop(img, lab, corner)
        return img[None].contiguous(), lab.long()


def double_conv(i, o):
    return nn.Sequential(nn.Conv3d(i, o, 3, padding=1, bias=False), nn.InstanceNorm3d(o, affine=True),
                         nn.LeakyReLU(0.01, inplace=True),
                         nn.Conv3d(o, o, 3, padding=1, bias=False), nn.InstanceNorm3d(o, affine=True),
                         nn.LeakyReLU(0.01, inplace=True))


class UNet3d(nn.Module):
    def __init__(self, n_classes=3, widths=(8, 16, 32)):
        super().__init__()
        self.down = nn.ModuleList()
        c = 1
        for w in widths:
            self.down.append(double_conv(c, w))
            c = w
        self.up = nn.ModuleList()
        self.dec = nn.ModuleList()
        for w in reversed(widths[:-1]):
            self.up.append(nn.ConvTranspose3d(c, w, 2, stride=2))
            self.dec.append(double_conv(2 * w, w))
            c = w
        self.head = nn.Conv3d(c, n_classes, 1)

    def forward(self, x):
        skips = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else F.max_pool3d(x, 2))
            skips.append(x)
        skips.pop()
        for up, dec in zip(self.up, self.dec):
            x = dec(torch.cat([up(x), skips.pop()], dim=1))
        return self.head(x)


class DiceCE(nn.Module):
    def forward(self, logits, target):
        ce = F.cross_entropy(logits, target)
        prob = logits.softmax(1)
        onehot = F.one_hot(target, logits.size(1)).movedim(-1, 1).to(prob.dtype)
        inter = (prob * onehot).sum((0, 2, 3, 4))
        denom = prob.sum((0, 2, 3, 4)) + onehot.sum((0, 2, 3, 4))
        dice = (2 * inter + 1e-5) / (denom + 1e-5)
        return ce + 1 - dice[1:].mean(), dice[1:].mean().detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cases", type=int, default=6)
    ap.add_argument("--shape", type=int, nargs=3, default=[64, 112, 112])
    ap.add_argument("--patch", type=int, nargs=3, default=[32, 32, 32])
    ap.add_argument("--batch-size", type=int, default=2)
    ap.add_argument("--iters", type=int, default=40)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(42)
    ds = CTPatches(args.cases, tuple(args.shape), tuple(args.patch), args.iters * args.batch_size, seed=42)
    loader = DataLoader(ds, batch_size=args.batch_size)
    net, criterion = UNet3d(), DiceCE()
    opt = torch.optim.SGD(net.parameters(), lr=args.lr * 10, momentum=0.95, nesterov=True, weight_decay=3e-5)
    poly = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=args.iters, power=0.9)
    tic, ema = time.perf_counter(), None
    for it, (x, y) in enumerate(loader, 1):
        loss, dice = criterion(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 12)
        opt.step()
        poly.step()
        ema = loss.item() if ema is None else 0.9 * ema + 0.1 * loss.item()
        if it % 8 == 0:
            now = time.perf_counter()
            print(f"iter {it:3d}/{args.iters} loss {ema:.4f} dice {dice.item():.3f} {(now - tic) / 8:.3f} s/iter")
            tic = now
    torch.save({"net": net.state_dict(), "iter": args.iters}, "/tmp/ct_organ_unet.pt")
    print(f"final loss {ema:.5f}")


if __name__ == "__main__":
    main()
