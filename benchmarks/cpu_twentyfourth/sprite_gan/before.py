"""A DCGAN on little coloured sprites."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Sprites:
    """Random discs and boxes on a flat background, 3x32x32, in [-1, 1]."""

    def __init__(self, n, size=32, seed=0):
        gen = torch.Generator().manual_seed(seed)
        grid = torch.arange(size, dtype=torch.float32)
        yy, xx = grid.view(1, -1, 1), grid.view(1, 1, -1)
        cy, cx = (8 + 16 * torch.rand(2, n, 1, 1, generator=gen)).unbind(0)
        r = 4 + 6 * torch.rand(n, 1, 1, generator=gen)
        disc = ((yy - cy) ** 2 + (xx - cx) ** 2) < r ** 2
        box = ((yy - cy).abs() < r) & ((xx - cx).abs() < r)
        shape = torch.where(torch.rand(n, 1, 1, generator=gen) < 0.5, disc, box).unsqueeze(1)
        front, back = (2 * torch.rand(2, n, 3, 1, 1, generator=gen) - 1).unbind(0)
        self.images = torch.where(shape, front, back)
        self.gen = gen

    def sample(self, batch_size):
        i = torch.randint(len(self.images), (batch_size,), generator=self.gen)
        return self.images[i]


class Generator(nn.Module):
    def __init__(self, latent=64, width=32):
        super().__init__()
        self.latent = latent
        self.project = nn.Linear(latent, 4 * width * 16)
        self.net = nn.Sequential(
            self._up(4 * width, 2 * width),
            self._refine(2 * width),
            self._up(2 * width, width),
            self._refine(width),
            nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    @staticmethod
    def _up(cin, cout):
        return nn.Sequential(
            nn.ConvTranspose2d(cin, cout, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(cout), nn.ReLU(inplace=True))

    @staticmethod
    def _refine(c):
        return nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=True))

    def forward(self, z):
        x = self.project(z)
        return self.net(x.view(z.size(0), -1, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(2 * width, 4 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2, inplace=True),
        )
        self.head = nn.Linear(4 * width * 16, 1)

    def forward(self, x):
        return self.head(self.net(x).flatten(1)).squeeze(1)


def init_weights(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


class GanTrainer:
    def __init__(self, generator, discriminator, lr=2e-4, betas=(0.5, 0.999)):
        self.g, self.d = generator, discriminator
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=lr, betas=betas)
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=lr, betas=betas)

    def step(self, real):
        n = real.size(0)
        fake = self.g(torch.randn(n, self.g.latent))

        # discriminator
        self.opt_d.zero_grad(set_to_none=True)
        score_real = self.d(real)
        score_fake = self.d(fake)
        loss_d = F.relu(1 - score_real).mean() + F.relu(1 + score_fake).mean()
        loss_d.backward(retain_graph=True)
        self.opt_d.step()

        # generator
        self.opt_g.zero_grad(set_to_none=True)
        loss_g = -self.d(fake).mean()
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = Sprites(1000)
    generator = Generator().apply(init_weights)
    discriminator = Discriminator().apply(init_weights)
    trainer = GanTrainer(generator, discriminator)

    mean_d = mean_g = 0.0
    for step in range(args.steps):
        loss_d, loss_g = trainer.step(data.sample(args.batch_size))
        mean_d += (loss_d - mean_d) / (step + 1)
        mean_g += (loss_g - mean_g) / (step + 1)
    print(f"{mean_d + mean_g:.5f}")


if __name__ == "__main__":
    main()
