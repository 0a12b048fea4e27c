"""Road extraction from aerial tiles, on the group's small trainer package."""
import argparse
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, TensorDataset

from litlite import (BinaryAveragePrecision, LearningRateMonitor, LiteModule, MeanMetric, ModelCheckpoint, Trainer)


def make_tiles(n, size, seed):
    rng = np.random.default_rng(seed)
    images = np.empty((n, 3, size, size), np.float32)
    masks = np.empty((n, 1, size, size), np.float32)
    for i in range(n):
        mask = Image.new("L", (size, size), 0)
        draw = ImageDraw.Draw(mask)
        for _ in range(rng.integers(1, 4)):
            pts = [(int(x), int(y)) for x, y in rng.integers(0, size, size=(3, 2))]
            draw.line(pts, fill=255, width=int(rng.integers(2, 5)))
        m = np.asarray(mask, np.float32) / 255
        ground = rng.uniform(0.2, 0.6, size=(3, 1, 1)) + 0.08 * rng.standard_normal((3, size, size))
        road = rng.uniform(0.4, 0.7)
        images[i] = ground * (1 - m) + (road + 0.08 * rng.standard_normal((size, size))) * m
        masks[i] = m
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(masks))


class SeparableConv(nn.Sequential):
    def __init__(self, cin, cout, dilation=1):
        super().__init__(
            nn.Conv2d(cin, cout, 1, bias=False),
            nn.Conv2d(cout, cout, 3, padding=dilation, dilation=dilation, groups=cout, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True))


class RoadNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.ReLU(inplace=True))
        self.body = nn.Sequential(*(SeparableConv(width if i == 0 else 2 * width, 2 * width, d)
                                    for i, d in enumerate((1, 2, 4, 8))))
        self.head = nn.Conv2d(3 * width, 1, 1)

    def forward(self, x):
        s = self.stem(x)
        logits = self.head(torch.cat([s, self.body(s)], dim=1))
        return F.interpolate(logits, size=x.shape[-2:], mode="bilinear", align_corners=False)


def soft_dice(logits, target):
    p = logits.sigmoid()
    return 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


class RoadModule(LiteModule):
    def __init__(self, lr, total_steps):
        super().__init__()
        self.net = RoadNet()
        self.lr, self.total_steps = lr, total_steps
        self.train_ap = BinaryAveragePrecision()
        self.val_ap = BinaryAveragePrecision()
        self.val_loss = MeanMetric()

    def _loss(self, logits, target):
        return F.binary_cross_entropy_with_logits(logits, target) + soft_dice(logits, target)

    def on_train_epoch_start(self):
        self.train_ap.reset()

    def training_step(self, batch, batch_idx):
        image, target = batch
        logits = self.net(image)
        loss = self._loss(logits, target)
        self.train_ap.update(logits, target)
        self.log("train_loss", loss.detach(), prog_bar=True)
        return loss

    def on_train_epoch_end(self):
        self.log("train_ap", self.train_ap.compute(), prog_bar=True)

    def validation_step(self, batch, batch_idx):
        image, target = batch
        logits = self.net(image)
        self.val_loss.update(self._loss(logits, target), len(image))
        self.val_ap.update(logits, target)

    def on_validation_epoch_end(self):
        self.log("val_loss", self.val_loss.compute())
        self.log("val_ap", self.val_ap.compute())
        self.val_loss.reset()
        self.val_ap.reset()

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-4)
        return opt, torch.optim.lr_scheduler.OneCycleLR(opt, self.lr, total_steps=self.total_steps)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiles", type=int, default=200)
    ap.add_argument("--tile-size", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--seed", type=int, default=17)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    train = DataLoader(make_tiles(args.tiles, args.tile_size, args.seed), args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(make_tiles(32, args.tile_size, args.seed + 1), 16)
    with tempfile.TemporaryDirectory() as ckpt_dir:
        trainer = Trainer(args.epochs, callbacks=[LearningRateMonitor(), ModelCheckpoint(ckpt_dir, "val_ap")],
                          gradient_clip_val=1.0)
        trainer.fit(RoadModule(args.lr, args.epochs * len(train)), train, val)
    print(f"done after {trainer.global_step} steps, train_ap {trainer.logged['train_ap']:.4f}")


if __name__ == "__main__":
    main()
