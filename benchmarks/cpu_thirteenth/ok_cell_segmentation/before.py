"""Binary segmentation of cells with a small U-Net."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, CROP = 160, 96


def make_slides(n=64, seed=31):
    """Blobs on an uneven background; uint8 images and masks."""
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    masks = torch.zeros(n, SIZE, SIZE, dtype=torch.bool)
    for _ in range(12):
        cy, cx = torch.randint(SIZE, (2, n, 1, 1), generator=g)
        radius = torch.randint(6, 14, (n, 1, 1), generator=g)
        masks |= (yy - cy) ** 2 + (xx - cx) ** 2 < radius**2
    light = 90 + 40 * torch.sin(xx / 40 + torch.rand(n, 1, 1, generator=g) * 6)
    images = light + 55 * masks + 18 * torch.randn(n, SIZE, SIZE, generator=g)
    return images.clamp(0, 255).to(torch.uint8), masks.to(torch.uint8)


def sample_crops(images, masks, n, g):
    pick = torch.randint(len(images), (n,), generator=g)
    top, left = torch.randint(SIZE - CROP + 1, (2, n, 1), generator=g)
    rows = (top + torch.arange(CROP)).unsqueeze(2)
    cols = (left + torch.arange(CROP)).unsqueeze(1)
    x = images[pick.view(-1, 1, 1), rows, cols]
    y = masks[pick.view(-1, 1, 1), rows, cols]
    return x.unsqueeze(1).float().div_(127.5).sub_(1.0), y.unsqueeze(1).float()


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down1 = double_conv(1, width)
        self.down2 = double_conv(width, 2 * width)
        self.bottom = double_conv(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.merge2 = double_conv(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.merge1 = double_conv(2 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        x = self.bottom(F.max_pool2d(b, 2))
        x = self.merge2(torch.cat([self.up2(x), b], dim=1))
        x = self.merge1(torch.cat([self.up1(x), a], dim=1))
        return self.head(x)


def dice_bce(logits, target):
    prob = logits.sigmoid()
    overlap = (prob * target).sum(dim=(1, 2, 3))
    dice = (2 * overlap + 1) / (prob.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + 1 - dice.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)

    images, masks = make_slides()
    model = UNet().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    g = torch.Generator().manual_seed(2)

    losses = []
    model.train()
    for step in range(args.steps):
        x, y = sample_crops(images, masks, args.batch_size, g)
        loss = dice_bce(model(x.contiguous(memory_format=torch.channels_last)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    print(f"loss of the last 10 steps: {torch.stack(losses[-10:]).mean().item():.4f}")


if __name__ == "__main__":
    main()
