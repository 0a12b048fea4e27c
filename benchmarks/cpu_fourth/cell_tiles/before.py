"""Nucleus segmentation on random tiles of stained slides."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

MEAN = torch.tensor([0.70, 0.55, 0.68]).view(3, 1, 1)
STD = torch.tensor([0.18, 0.22, 0.17]).view(3, 1, 1)


def make_slides(n, side, gen):
    """Synthetic slides: dark round nuclei on a pink ground."""
    yy, xx = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    slides, masks = [], []
    for _ in range(n):
        mask = torch.zeros(side, side, dtype=torch.bool)
        for _ in range(24):
            cy, cx = torch.randint(0, side, (2,), generator=gen).tolist()
            r = int(torch.randint(6, 18, (1,), generator=gen))
            y0, y1, x0, x1 = max(cy - r, 0), cy + r, max(cx - r, 0), cx + r
            disc = (yy[y0:y1, x0:x1] - cy) ** 2 + (xx[y0:y1, x0:x1] - cx) ** 2 < r * r
            mask[y0:y1, x0:x1] |= disc
        ground = torch.tensor([215, 160, 200]).view(3, 1, 1).float()
        img = ground - 90 * mask.float() + 12 * torch.randn(3, side, side, generator=gen)
        slides.append(img.clamp(0, 255).to(torch.uint8))
        masks.append(mask)
    return slides, masks


class TileDataset(Dataset):
    def __init__(self, slides, masks, tile, length):
        self.slides, self.masks = slides, masks
        self.tile, self.length = tile, length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        i = i % len(self.slides)
        img = self.slides[i].float() / 255
        mask = self.masks[i]
        gain = 1 + 0.1 * torch.randn(3, 1, 1)
        img = (img * gain).clamp(0, 1)
        img = (img - MEAN) / STD
        top = int(torch.randint(0, img.shape[1] - self.tile, (1,)))
        left = int(torch.randint(0, img.shape[2] - self.tile, (1,)))
        img = img[:, top:top + self.tile, left:left + self.tile]
        mask = mask[top:top + self.tile, left:left + self.tile]
        if torch.rand(()) < 0.5:
            img, mask = img.flip(-1), mask.flip(-1)
        return img, mask.float().unsqueeze(0)


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class SmallUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.enc1, self.enc2, self.mid = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.dec2 = block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = block(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        a = self.dec1(torch.cat([self.up1(b), a], 1))
        return self.out(a)


def seg_loss(logits, target):
    bce = F.binary_cross_entropy_with_logits(logits, target)
    p = logits.sigmoid()
    inter = (p * target).sum((1, 2, 3))
    dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)
    return bce + dice.mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=6)
    ap.add_argument("--tile", type=int, default=96)
    args = ap.parse_args()
    torch.manual_seed(11)

    slides, masks = make_slides(12, 512, torch.Generator().manual_seed(3))
    data = TileDataset(slides, masks, args.tile, args.steps * args.batch_size)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = SmallUNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)

    times, loss = [], None
    batches = iter(loader)
    for step in range(args.steps):
        t0 = time.perf_counter()
        img, mask = next(batches)
        loss = seg_loss(model(img), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
