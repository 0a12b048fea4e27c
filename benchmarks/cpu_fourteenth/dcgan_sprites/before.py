"""DCGAN on small synthetic sprites."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 32
LATENT = 32
BATCH = 16


def make_sprites(count=1024, seed=9):
    """Coloured discs and squares on a dark background, in [-1, 1]."""
    gen = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    cx = torch.rand(count, 1, 1, generator=gen) - 0.5
    cy = torch.rand(count, 1, 1, generator=gen) - 0.5
    r = 0.2 + 0.3 * torch.rand(count, 1, 1, generator=gen)
    round_ = torch.rand(count, 1, 1, generator=gen) < 0.5
    disc = (xx - cx) ** 2 + (yy - cy) ** 2 < r ** 2
    square = ((xx - cx).abs() < r) & ((yy - cy).abs() < r)
    mask = torch.where(round_, disc, square)[:, None].float()
    colour = torch.rand(count, 3, 1, 1, generator=gen)
    noise = 0.05 * torch.randn(count, 3, SIZE, SIZE, generator=gen)
    return ((mask * colour + noise) * 2 - 1).clamp(-1, 1)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def up(cin, cout):
    return nn.Sequential(
        nn.Upsample(scale_factor=2),
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(),
    )


class Generator(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.project = nn.Linear(LATENT, 2 * width * 16)
        self.net = nn.Sequential(
            up(2 * width, 2 * width),
            up(2 * width, width),
            up(width, width),
            nn.Conv2d(width, 3, 3, padding=1),
            nn.Tanh(),
        )
        self.width = width

    def forward(self, z):
        return self.net(self.project(z).view(-1, 2 * self.width, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(4 * width * 16, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    sprites = make_sprites()
    gen_net, disc_net = Generator().apply(weights_init), Discriminator().apply(weights_init)
    opt_g = torch.optim.Adam(gen_net.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(disc_net.parameters(), lr=2e-4, betas=(0.5, 0.999))
    ones, zeros = torch.full((BATCH,), 0.9), torch.zeros(BATCH)

    for _ in range(args.steps):
        real = sprites[torch.randint(0, len(sprites), (BATCH,))]
        fake = gen_net(torch.randn(BATCH, LATENT))

        # discriminator
        opt_d.zero_grad()
        loss_real = F.binary_cross_entropy_with_logits(disc_net(real), ones)
        loss_fake = F.binary_cross_entropy_with_logits(disc_net(fake), zeros)
        loss_d = loss_real + loss_fake
        loss_d.backward(retain_graph=True)
        opt_d.step()

        # generator
        opt_g.zero_grad()
        loss_g = F.binary_cross_entropy_with_logits(disc_net(fake), torch.ones(BATCH))
        loss_g.backward()
        opt_g.step()

    print(f"steps {args.steps} loss_d {loss_d.item():.4f} loss_g {loss_g.item():.4f}")


if __name__ == "__main__":
    main()
