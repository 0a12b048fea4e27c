"""Land-cover segmentation of aerial tiles with a small encoder and decoder."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 8


class Tiles(Dataset):
    """Tiles of coloured fields: each class has a colour, and the fields' borders are straight lines."""

    def __init__(self, count, size, seed=0):
        gen = torch.Generator().manual_seed(seed)
        colours = torch.rand(CLASSES, 3, generator=gen)
        axis = torch.linspace(-1, 1, size)
        yy, xx = axis.view(1, -1, 1), axis.view(1, 1, -1)
        label = torch.zeros(count, size, size, dtype=torch.long)
        for bit in range(3):
            angle = 6.283 * torch.rand(count, 1, 1, generator=gen)
            shift = torch.rand(count, 1, 1, generator=gen) - 0.5
            side = torch.cos(angle) * xx + torch.sin(angle) * yy > shift
            label += side.long() << bit
        self.masks = label
        images = colours[label].permute(0, 3, 1, 2).contiguous()
        self.images = images + 0.1 * torch.randn(images.shape, generator=gen)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


def conv_block(cin, cout, stride=1, dilation=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=dilation, dilation=dilation, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Encoder(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = conv_block(3, width, stride=2)
        self.quarter = nn.Sequential(conv_block(width, 2 * width, stride=2), conv_block(2 * width, 2 * width))
        self.eighth = nn.Sequential(
            conv_block(2 * width, 4 * width, stride=2),
            conv_block(4 * width, 4 * width, dilation=2),
            conv_block(4 * width, 4 * width, dilation=4),
        )
        self.out_channels = (2 * width, 4 * width)

    def forward(self, x):
        low = self.quarter(self.stem(x))
        return low, self.eighth(low)


class Decoder(nn.Module):
    """Coarse features are joined with finer ones, and the classes told for each pixel of the image."""

    def __init__(self, channels, width=64):
        super().__init__()
        low, high = channels
        self.reduce = nn.Sequential(nn.Conv2d(low, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.fuse = conv_block(high + 16, width)
        self.classify = nn.Conv2d(width, CLASSES, 1)

    def forward(self, low, high, size):
        high = F.interpolate(high, size=low.shape[-2:], mode="bilinear", align_corners=False)
        x = self.fuse(torch.cat([high, self.reduce(low)], dim=1))
        x = self.classify(x)
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder(self.encoder.out_channels)

    def forward(self, x):
        low, high = self.encoder(x)
        return self.decoder(low, high, x.shape[-2:])


class MeanIou:
    def __init__(self):
        self.table = torch.zeros(CLASSES * CLASSES, dtype=torch.long)

    def update(self, logits, target):
        cell = target * CLASSES + logits.argmax(1)
        self.table += torch.bincount(cell.flatten(), minlength=CLASSES * CLASSES)

    def compute(self):
        table = self.table.view(CLASSES, CLASSES).double()
        hit = table.diagonal()
        return (hit / (table.sum(0) + table.sum(1) - hit).clamp(min=1)).mean().item()


def batches(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--log-every", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Tiles(120, args.size)
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True)
    model = Segmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    total = torch.zeros(())
    stream = batches(loader)
    for step in range(1, args.steps + 1):
        images, masks = next(stream)
        logits = model(images)
        loss = F.cross_entropy(logits, masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if step % args.log_every == 0:
            print(f"step {step} mean loss {total.item() / step:.4f}")

    model.eval()
    iou = MeanIou()
    with torch.inference_mode():
        for start in range(0, 24, args.batch_size):
            iou.update(model(data.images[start:start + args.batch_size]), data.masks[start:start + args.batch_size])
    print(f"iou {iou.compute():.2f} mean loss {total.item() / args.steps:.4f}")


if __name__ == "__main__":
    main()
