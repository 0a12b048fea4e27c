"""A DCGAN on synthetic 32x32 glyphs."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

LATENT = 64


def make_glyphs(n=1024, seed=8):
    """Soft-edged rings and bars in [-1, 1], one channel."""
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    cx, cy = torch.rand(2, n, 1, 1, generator=g) * 8 + 12
    radius = torch.rand(n, 1, 1, generator=g) * 6 + 4
    distance = ((xx - cx) ** 2 + (yy - cy) ** 2).sqrt()
    ring = torch.exp(-((distance - radius) ** 2) / 4)
    bar = torch.exp(-((xx - cx) ** 2) / 6) * ((yy - cy).abs() < radius * 1.4)
    is_ring = torch.rand(n, 1, 1, generator=g) < 0.5
    return (torch.where(is_ring, ring, bar) * 2 - 1).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, width=48):
        super().__init__()

        def up(cin, cout):
            return nn.Sequential(
                nn.ConvTranspose2d(cin, cout, 4, 2, 1, bias=False),
                nn.BatchNorm2d(cout),
                nn.ReLU(inplace=True),
            )

        self.project = nn.Linear(LATENT, width * 4 * 16)
        self.width = width
        self.net = nn.Sequential(
            up(width * 4, width * 2),
            up(width * 2, width),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, z):
        x = self.project(z).view(-1, self.width * 4, 4, 4)
        return self.net(x)


class Discriminator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, width * 2, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width * 2, width * 4, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width * 4, 1, 4),
        )

    def forward(self, x):
        return self.net(x).flatten()


def bce(scores, value):
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, value))


def train_step(G, D, opt_g, opt_d, real):
    z = torch.randn(len(real), LATENT)
    fake = G(z)

    # discriminator: real up, fake down
    loss_d = bce(D(real), 0.9) + bce(D(fake), 0.0)
    opt_d.zero_grad()
    loss_d.backward(retain_graph=True)
    opt_d.step()

    # generator: make D call the fakes real
    D.requires_grad_(False)
    loss_g = bce(D(fake), 1.0)
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    D.requires_grad_(True)
    return loss_d.detach(), loss_g.detach()


def init_weights(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)

    images = make_glyphs()
    G, D = Generator(), Discriminator()
    G.apply(init_weights)
    D.apply(init_weights)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))

    history = []
    for step in range(args.steps):
        pick = torch.randint(len(images), (args.batch_size,))
        history.append(train_step(G, D, opt_g, opt_d, images[pick]))

    loss_d, loss_g = (torch.stack(list(x[-10:])).mean().item() for x in zip(*history))
    print(f"loss_d {loss_d:.3f}  loss_g {loss_g:.3f}")


if __name__ == "__main__":
    main()
