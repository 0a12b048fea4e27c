"""DCGAN on synthetic 32x32 glyphs (rings, bars, crosses)."""
import argparse

import torch
import torch.nn as nn

NZ, NGF, NDF = 100, 64, 24


def make_glyphs(n, seed=3):
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, 32)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    cx, cy = (torch.rand(2, n, 1, 1, generator=g) - 0.5) * 0.6
    r = 0.3 + 0.4 * torch.rand(n, 1, 1, generator=g)
    kind = torch.randint(3, (n, 1, 1), generator=g)
    dist = torch.sqrt((xx - cx) ** 2 + (yy - cy) ** 2)
    ring = torch.exp(-((dist - r) / 0.08) ** 2)
    bar = torch.exp(-((xx - cx) / 0.12) ** 2) * (dist < r + 0.2)
    cross = torch.maximum(torch.exp(-((xx - cx) / 0.1) ** 2), torch.exp(-((yy - cy) / 0.1) ** 2)) * (dist < r + 0.1)
    img = torch.where(kind == 0, ring, torch.where(kind == 1, bar, cross))
    return (img * 2 - 1).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NZ, NGF * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(NGF * 4),
            nn.ReLU(True),
            # state size: (NGF*4) x 4 x 4
            nn.ConvTranspose2d(NGF * 4, NGF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF * 2),
            nn.ReLU(True),
            # state size: (NGF*2) x 8 x 8
            nn.ConvTranspose2d(NGF * 2, NGF, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF),
            nn.ReLU(True),
            # state size: NGF x 16 x 16
            nn.ConvTranspose2d(NGF, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, NDF // 2, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF // 2, NDF, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NDF),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF, NDF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NDF * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF * 2, 1, 4, 1, 0, bias=False),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-4)
    args = parser.parse_args()

    torch.manual_seed(999)
    data = make_glyphs(2048)
    netG = Generator().apply(weights_init)
    netD = Discriminator().apply(weights_init)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=True)
    optimizerG = torch.optim.Adam(netG.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=True)
    real_label = torch.ones(args.batch_size)
    fake_label = torch.zeros(args.batch_size)

    sum_d = sum_g = 0.0
    for _ in range(args.steps):
        real = data[torch.randint(len(data), (args.batch_size,))]
        noise = torch.randn(args.batch_size, NZ, 1, 1)
        fake = netG(noise)

        # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
        optimizerD.zero_grad()
        errD_real = criterion(netD(real), real_label)
        errD_fake = criterion(netD(fake.detach()), fake_label)
        errD = errD_real + errD_fake
        errD.backward()
        optimizerD.step()

        # (2) Update G network: maximize log(D(G(z)))
        optimizerG.zero_grad()
        errG = criterion(netD(fake), real_label)
        errG.backward()
        optimizerG.step()

        sum_d += errD.item()
        sum_g += errG.item()

    n = max(args.steps, 1)
    print(f"[{args.steps}] Loss_D: {sum_d / n:.3f} Loss_G: {sum_g / n:.3f}")


if __name__ == "__main__":
    main()
