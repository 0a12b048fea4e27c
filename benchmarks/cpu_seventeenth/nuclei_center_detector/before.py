"""CenterNet-style nucleus detector on synthetic histology tiles (three cell classes)."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STRIDE = 2


class TileDataset(torch.utils.data.Dataset):
    """Tiles with elliptical nuclei; returns image and (x, y, radius, class) per nucleus."""

    COLORS = np.array([[0.45, 0.20, 0.55], [0.25, 0.20, 0.50], [0.60, 0.30, 0.45]], np.float32)

    def __init__(self, n, size, seed):
        rng = np.random.default_rng(seed)
        self.size = size
        self.images, self.boxes = [], []
        for _ in range(n):
            img, ann = self._render(rng)
            self.images.append(img)
            self.boxes.append(ann)

    def _render(self, rng):
        s = self.size
        img = np.empty((3, s, s), np.float32)
        img[:] = np.array([0.85, 0.65, 0.78], np.float32)[:, None, None]
        img += rng.normal(0, 0.04, img.shape).astype(np.float32)
        count = int(rng.integers(30, 60))
        ann = np.zeros((count, 4), np.float32)
        for k in range(count):
            c = int(rng.integers(3))
            r = rng.uniform(3.0, 7.0)
            x, y = rng.uniform(0, s, 2)
            x0, x1 = max(int(x - r), 0), min(int(x + r) + 1, s)
            y0, y1 = max(int(y - r), 0), min(int(y + r) + 1, s)
            yy, xx = np.mgrid[y0:y1, x0:x1]
            inside = (xx - x) ** 2 + (yy - y) ** 2 < r * r
            img[:, y0:y1, x0:x1][:, inside] = self.COLORS[c][:, None] + 0.05 * rng.standard_normal()
            ann[k] = x, y, r, c
        return torch.from_numpy(img), torch.from_numpy(ann)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img, ann = self.images[i], self.boxes[i].clone()
        if torch.rand(()) < 0.5:
            img = img.flip(-1)
            ann[:, 0] = self.size - 1 - ann[:, 0]
        return img, ann


def collate(samples):
    return torch.stack([s[0] for s in samples]), [s[1] for s in samples]


def conv_bn(cin, cout, stride=1, groups=1, k=3):
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Backbone(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.stem = conv_bn(3, w, stride=2)
        self.down1 = nn.Sequential(conv_bn(w, 2 * w, stride=2), conv_bn(2 * w, 2 * w))
        self.down2 = nn.Sequential(conv_bn(2 * w, 4 * w, stride=2), conv_bn(4 * w, 4 * w))
        self.up1 = conv_bn(6 * w, 2 * w)
        self.up0 = conv_bn(3 * w, w)

    def forward(self, x):
        a = self.stem(x)
        b = self.down1(a)
        c = self.down2(b)
        b = self.up1(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        return self.up0(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))


class CenterNet(nn.Module):
    def __init__(self, n_classes=3, w=12):
        super().__init__()
        self.backbone = Backbone(w)
        self.hm = nn.Conv2d(w, n_classes, 1)
        self.reg = nn.Conv2d(w, 3, 1)          # dx, dy, log radius
        nn.init.constant_(self.hm.bias, -2.19)

    def forward(self, x):
        f = self.backbone(x)
        return self.hm(f), self.reg(f)


class TargetEncoder:
    """Gaussian centre heatmaps plus sparse offset/size targets at the output stride."""

    def __init__(self, n_classes, out_size):
        self.n_classes = n_classes
        self.out = out_size
        self.yy, self.xx = torch.meshgrid(torch.arange(out_size), torch.arange(out_size), indexing="ij")

    def draw(self, heat, cx, cy, sigma):
        d2 = (self.xx - cx) ** 2 + (self.yy - cy) ** 2
        g = torch.exp(-d2 / (2 * sigma ** 2))
        g[d2 > (3 * sigma) ** 2] = 0
        torch.maximum(heat, g, out=heat)

    def __call__(self, anns):
        heat = torch.zeros(len(anns), self.n_classes, self.out, self.out)
        index, values = [], []
        for b, ann in enumerate(anns):
            pos = ann[:, :2] / STRIDE
            cell = pos.floor().long().clamp_(0, self.out - 1)
            for (cx, cy), r, c in zip(cell.tolist(), ann[:, 2].tolist(), ann[:, 3].tolist()):
                self.draw(heat[b, int(c)], cx, cy, max(r / STRIDE / 2, 1.0))
            index.append(torch.stack([torch.full((len(ann),), b), cell[:, 1], cell[:, 0]], 1))
            values.append(torch.cat([pos - cell, (ann[:, 2:3] / STRIDE).log()], 1))
        return heat, torch.cat(index), torch.cat(values)


def focal_loss(logits, heat):
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = heat.eq(1).float()
    pos_loss = torch.log(p) * (1 - p) ** 2 * pos
    neg_loss = torch.log(1 - p) * p ** 2 * (1 - heat) ** 4 * (1 - pos)
    return -(pos_loss.sum() + neg_loss.sum()) / pos.sum().clamp(min=1)


def detection_loss(out, target):
    hm, reg = out
    heat, idx, val = target
    picked = reg[idx[:, 0], :, idx[:, 1], idx[:, 2]]
    return focal_loss(hm, heat), F.l1_loss(picked, val)


@torch.no_grad()
def evaluate(model, ds, n=4, thresh=0.3):
    """Recall of nuclei with a same-class peak within 3 output pixels."""
    model.eval()
    hit = total = 0
    for i in range(n):
        img, ann = ds[i]
        p = model(img[None])[0].sigmoid()
        peak = (F.max_pool2d(p, 3, 1, 1) == p) & (p > thresh)
        found = peak[0].nonzero().float()
        if len(found):
            d = torch.cdist(torch.cat([ann[:, 3:4] * 1000, ann[:, [1, 0]] / STRIDE], 1),
                            torch.cat([found[:, :1] * 1000, found[:, 1:]], 1))
            hit += int((d.min(1).values < 3).sum())
        total += len(ann)
    model.train()
    return hit / total


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--tiles", type=int, default=64)
    p.add_argument("--size", type=int, default=256)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    torch.manual_seed(3)
    ds = TileDataset(args.tiles, args.size, seed=0)
    test = TileDataset(8, args.size, seed=1)
    loader = torch.utils.data.DataLoader(ds, args.batch, shuffle=True, collate_fn=collate, drop_last=True)
    model = CenterNet()
    encode = TargetEncoder(3, math.ceil(args.size / STRIDE))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(loader))

    for epoch in range(args.epochs):
        tic, log = time.time(), []
        for images, anns in loader:
            target = encode(anns)
            hm_loss, reg_loss = detection_loss(model(images), target)
            loss = hm_loss + reg_loss
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            opt.step()
            sched.step()
            log.append((hm_loss.item(), reg_loss.item()))
        hm, reg = np.mean(log, axis=0)
        print(f"[{epoch}] hm {hm:.4f} reg {reg:.4f} recall {evaluate(model, test):.3f} "
              f"{(time.time() - tic) / len(loader):.3f} s/it")


if __name__ == "__main__":
    main()
