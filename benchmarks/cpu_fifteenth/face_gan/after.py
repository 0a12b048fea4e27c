"""DCGAN on 32x32 synthetic faces."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

NZ = 64
NGF = 40
NDF = 24


def make_faces(count, seed):
    """A round head, two eyes and a mouth at jittered positions."""
    gen = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij")
    jitter = torch.randn(count, 6, generator=gen) * 0.05
    skin = 0.4 + 0.4 * torch.rand(count, 3, generator=gen)
    faces = -torch.ones(count, 3, 32, 32)
    for i in range(count):
        j = jitter[i]
        head = ((xx - j[0]) ** 2 + (yy - j[1]) ** 2) < 0.65
        left = ((xx + 0.3 - j[2]) ** 2 + (yy + 0.25) ** 2) < 0.015
        right = ((xx - 0.3 - j[3]) ** 2 + (yy + 0.25) ** 2) < 0.015
        mouth = ((yy - 0.35 - j[4]).abs() < 0.06) & (xx.abs() < 0.3 + j[5])
        faces[i][:, head] = skin[i].unsqueeze(1)
        faces[i][:, left | right | mouth] = -0.8
    return faces


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NZ, NGF * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(NGF * 4), nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 4, NGF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF * 2), nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 2, NGF, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF), nn.ReLU(True),
            nn.ConvTranspose2d(NGF, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, NDF, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
            nn.Conv2d(NDF, NDF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NDF * 2), nn.LeakyReLU(0.2, True),
            nn.Conv2d(NDF * 2, NDF * 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NDF * 4), nn.LeakyReLU(0.2, True),
            nn.Conv2d(NDF * 4, 1, 4, 1, 0, bias=False),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(TensorDataset(make_faces(640, seed=0)), batch_size=32, shuffle=True, drop_last=True)
    netG, netD = Generator(), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCEWithLogitsLoss()
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))

    step = 0
    while step < args.steps:
        for (real,) in loader:
            batch = real.size(0)
            ones, zeros = torch.ones(batch), torch.zeros(batch)

            # (1) update D: maximize log(D(x)) + log(1 - D(G(z)))
            netD.zero_grad()
            loss_real = criterion(netD(real), ones)
            fake = netG(torch.randn(batch, NZ, 1, 1))
            loss_fake = criterion(netD(fake.detach()), zeros)
            loss_d = loss_real + loss_fake
            loss_d.backward()
            optD.step()

            # (2) update G: maximize log(D(G(z)))
            netG.zero_grad()
            fake = netG(torch.randn(batch, NZ, 1, 1))
            loss_g = criterion(netD(fake), ones)
            loss_g.backward()
            optG.step()

            step += 1
            if step == args.steps:
                break
    print(f"loss_d {loss_d.item():.3f} loss_g {loss_g.item():.3f}")


if __name__ == "__main__":
    main()
