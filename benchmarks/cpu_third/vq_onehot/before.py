"""VQ-VAE on small synthetic textures."""
import argparse
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    batch: int = 16
    hidden: int = 32
    codes: int = 1024
    code_dim: int = 64
    beta: float = 0.25
    lr: float = 1e-3
    seed: int = 7


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReLU(), nn.Conv2d(width, width // 2, 3, padding=1),
            nn.ReLU(), nn.Conv2d(width // 2, width, 1),
        )

    def forward(self, x):
        return x + self.body(x)


class VectorQuantizer(nn.Module):
    def __init__(self, codes, dim, beta):
        super().__init__()
        self.codes, self.dim, self.beta = codes, dim, beta
        self.codebook = nn.Embedding(codes, dim)
        nn.init.normal_(self.codebook.weight, std=0.15)

    def forward(self, z):
        z = z.permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, self.dim)

        with torch.no_grad():
            weight = self.codebook.weight
            distances = torch.addmm(weight.pow(2).sum(1), flat, weight.t(), alpha=-2)
            indices = distances.argmin(1)

        encodings = torch.zeros(indices.shape[0], self.codes)
        encodings.scatter_(1, indices.unsqueeze(1), 1)
        quantized = torch.matmul(encodings, self.codebook.weight).view(z.shape)

        loss = F.mse_loss(quantized, z.detach()) + self.beta * F.mse_loss(z, quantized.detach())
        quantized = z + (quantized - z).detach()
        usage = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(usage * torch.log(usage + 1e-10)))
        return quantized.permute(0, 3, 1, 2).contiguous(), loss, perplexity


class VQVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        h = cfg.hidden
        self.encoder = nn.Sequential(
            nn.Conv2d(3, h, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(h, h, 3, padding=1), Residual(h), nn.ReLU(),
            nn.Conv2d(h, cfg.code_dim, 1),
        )
        self.quantizer = VectorQuantizer(cfg.codes, cfg.code_dim, cfg.beta)
        self.decoder = nn.Sequential(
            nn.Conv2d(cfg.code_dim, h, 3, padding=1), Residual(h), nn.ReLU(),
            nn.ConvTranspose2d(h, 3, 4, stride=2, padding=1),
        )

    def forward(self, x):
        quantized, vq_loss, perplexity = self.quantizer(self.encoder(x))
        return self.decoder(quantized), vq_loss, perplexity


def textures(batch, size, generator):
    grid = torch.linspace(0, 1, size)
    freq = torch.randint(1, 6, (batch, 3, 2, 1, 1), generator=generator).float()
    phase = 6.28 * torch.rand(batch, 3, 1, 1, generator=generator)
    wave = freq[:, :, 0] * grid[:, None] + freq[:, :, 1] * grid[None, :]
    return torch.sin(6.28 * wave + phase) * 0.5


def train(cfg, steps):
    torch.manual_seed(cfg.seed)
    generator = torch.Generator().manual_seed(cfg.seed)
    model = VQVAE(cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    start = time.perf_counter()
    for step in range(steps):
        if step == 5:
            start = time.perf_counter()
        images = textures(cfg.batch, 32, generator)
        recon, vq_loss, perplexity = model(images)
        loss = F.mse_loss(recon, images) + vq_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"{step}: loss {loss.item():.5f} perplexity {perplexity.item():.2f}")
    return (time.perf_counter() - start) / max(1, steps - 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    seconds = train(Config(), parser.parse_args().steps)
    print(f"mean step {seconds * 1000:.2f} ms")
