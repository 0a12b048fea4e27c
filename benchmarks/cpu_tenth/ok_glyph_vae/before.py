"""Variational autoencoder on 32 x 32 glyphs, plain training loop."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def draw_glyphs(n=4096, size=32, strokes=3, seed=10):
    """Random poly-line glyphs with soft strokes, uint8 (n, 1, size, size)."""
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 1, size)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    image = torch.zeros(n, size, size)
    point = torch.rand(n, 2, generator=g) * 0.8 + 0.1
    for _ in range(strokes):
        end = torch.rand(n, 2, generator=g) * 0.8 + 0.1
        d = (end - point)[:, :, None, None]
        px = xx - point[:, 0, None, None]
        py = yy - point[:, 1, None, None]
        along = ((px * d[:, 0] + py * d[:, 1]) / (d.square().sum(dim=1) + 1e-6)).clamp(0, 1)
        dist2 = (px - along * d[:, 0]).square() + (py - along * d[:, 1]).square()
        image = torch.maximum(image, torch.exp(-dist2 / 0.002))
        point = end
    return (image * 255).to(torch.uint8).unsqueeze(1)


class Vae(nn.Module):
    def __init__(self, latent=24):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(64, 96, 4, 2, 1), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(96 * 16, 2 * latent),
        )
        self.expand = nn.Linear(latent, 96 * 16)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(96, 64, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, 2, 1),
        )

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        logits = self.decoder(F.relu(self.expand(z)).view(-1, 96, 4, 4))
        return logits, mean, log_var


def elbo_loss(logits, x, mean, log_var):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum()
    return (rec + kl) / len(x)


def minibatches(images, size):
    while True:
        for idx in torch.randperm(len(images)).split(size):
            if len(idx) == size:
                yield images[idx].float().div_(255)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    images = draw_glyphs()
    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)

    losses = []
    for _, x in zip(range(args.steps), minibatches(images, 64)):
        logits, mean, log_var = model(x)
        loss = elbo_loss(logits, x, mean, log_var)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    print(f"steps {args.steps}  negative elbo {torch.stack(losses[-10:]).mean().item():.3f}")


if __name__ == "__main__":
    main()
