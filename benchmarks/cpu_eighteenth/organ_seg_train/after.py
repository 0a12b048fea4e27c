"""Train a small U-Net on 2-D slices of abdominal CT cases (synthetic stand-in).

Every case is one .npz file with the image volume and its label volume, as the
preprocessing script of the challenge writes them.
"""
import argparse
import os
import random
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 4


def write_synthetic_cases(root, n_cases, depth, size, seed=7):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    paths = []
    for c in range(n_cases):
        image = np.empty((depth, size, size), dtype=np.float32)
        label = np.zeros((depth, size, size), dtype=np.uint8)
        centres = rng.uniform(0.25, 0.75, size=(NUM_CLASSES - 1, 2)) * size
        radii = rng.uniform(0.07, 0.18, size=NUM_CLASSES - 1) * size
        for z in range(depth):
            wobble = np.sin(z / depth * np.pi)
            for k in range(NUM_CLASSES - 1):
                inside = (yy - centres[k, 0]) ** 2 + (xx - centres[k, 1]) ** 2 < (radii[k] * wobble) ** 2
                label[z][inside] = k + 1
            noise = rng.integers(-60, 60, size=(size, size))
            image[z] = -50 + 60.0 * label[z] + noise
        path = os.path.join(root, f"case_{c:03d}.npz")
        np.savez_compressed(path, image=image, label=label, spacing=np.array([5.0, 0.8, 0.8]))
        paths.append(path)
    return paths


class CTSliceDataset(Dataset):
    """Random access to the axial slices of a list of cases."""

    def __init__(self, paths, crop=96, hu_window=(-160, 240), augment=False):
        self.crop = crop
        self.lo, self.hi = hu_window
        self.augment = augment
        self.cases = []
        for p in paths:
            with np.load(p) as npz:
                self.cases.append({"image": npz["image"], "label": npz["label"]})
        self.index = []
        for c, case in enumerate(self.cases):
            for z in range(case["label"].shape[0]):
                self.index.append((c, z))

    def __len__(self):
        return len(self.index)

    def _window(self, x):
        x = np.clip(x, self.lo, self.hi)
        return (x - self.lo) / (self.hi - self.lo)

    def __getitem__(self, i):
        c, z = self.index[i]
        case = self.cases[c]
        image = case["image"][z]
        label = case["label"][z]
        h, w = image.shape
        if self.augment:
            top = random.randint(0, h - self.crop)
            left = random.randint(0, w - self.crop)
        else:
            top, left = (h - self.crop) // 2, (w - self.crop) // 2
        image = image[top:top + self.crop, left:left + self.crop]
        label = label[top:top + self.crop, left:left + self.crop]
        if self.augment and random.random() < 0.5:
            image, label = image[:, ::-1], label[:, ::-1]
        image = torch.from_numpy(np.ascontiguousarray(self._window(image)))[None]
        label = torch.from_numpy(np.ascontiguousarray(label)).long()
        return image, label


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, base=8, num_classes=NUM_CLASSES):
        super().__init__()
        self.enc1 = DoubleConv(1, base)
        self.enc2 = DoubleConv(base, base * 2)
        self.enc3 = DoubleConv(base * 2, base * 4)
        self.up2 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.dec2 = DoubleConv(base * 4, base * 2)
        self.up1 = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.dec1 = DoubleConv(base * 2, base)
        self.head = nn.Conv2d(base, num_classes, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        e3 = self.enc3(F.max_pool2d(e2, 2))
        d2 = self.dec2(torch.cat([self.up2(e3), e2], dim=1))
        d1 = self.dec1(torch.cat([self.up1(d2), e1], dim=1))
        return self.head(d1)


def dice_per_class(logits, target, eps=1e-5):
    prob = logits.softmax(dim=1)
    onehot = F.one_hot(target, NUM_CLASSES).permute(0, 3, 1, 2).to(prob.dtype)
    inter = (prob * onehot).sum(dim=(0, 2, 3))
    denom = prob.sum(dim=(0, 2, 3)) + onehot.sum(dim=(0, 2, 3))
    return (2 * inter + eps) / (denom + eps)


def dice_ce_loss(logits, target):
    return F.cross_entropy(logits, target) + 1 - dice_per_class(logits, target)[1:].mean()


@torch.no_grad()
def validate(model, loader, max_batches):
    model.eval()
    scores = []
    for b, (image, label) in enumerate(loader):
        if b == max_batches:
            break
        scores.append(dice_per_class(model(image), label)[1:])
    model.train()
    return torch.stack(scores).mean(dim=0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cases", type=int, default=6)
    ap.add_argument("--depth", type=int, default=20)
    ap.add_argument("--size", type=int, default=208)
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--val-every", type=int, default=20)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    with tempfile.TemporaryDirectory() as root:
        paths = write_synthetic_cases(root, args.cases, args.depth, args.size)
        train_set = CTSliceDataset(paths[:-1], augment=True)
        val_set = CTSliceDataset(paths[-1:])
        train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
        val_loader = DataLoader(val_set, batch_size=args.batch_size)

        model = UNet()
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps)
        print(f"{len(train_set)} train slices, {len(val_set)} val slices, "
              f"{sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters")

        step, running, best = 0, 0.0, 0.0
        durations = []
        tick = time.perf_counter()
        while step < args.steps:
            for image, label in train_loader:
                logits = model(image)
                loss = dice_ce_loss(logits, label)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 12.0)
                optimizer.step()
                scheduler.step()
                running += loss.item()
                step += 1
                durations.append(time.perf_counter() - tick)
                if step % 10 == 0:
                    print(f"step {step:3d}  loss {running / 10:.4f}  lr {scheduler.get_last_lr()[0]:.2e}")
                    running = 0.0
                if step % args.val_every == 0:
                    dice = validate(model, val_loader, max_batches=3)
                    print("  val dice " + " ".join(f"{d:.3f}" for d in dice.tolist()))
                    if dice.mean() > best:
                        best = dice.mean().item()
                        torch.save(model.state_dict(), os.path.join(root, "best.pt"))
                if step == args.steps:
                    break
                tick = time.perf_counter()
        print(f"last loss {loss.item():.4f}  best dice {best:.4f}  {1e3 * np.mean(durations):.0f} ms/step")


if __name__ == "__main__":
    main()
