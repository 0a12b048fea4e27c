"""Convolutional VAE on synthetic pen strokes."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_strokes(n, side, gen):
    """Bezier curves drawn with a soft pen."""
    t = torch.linspace(0, 1, 40).view(1, 40, 1)
    p = torch.rand(n, 4, 2, generator=gen) * 0.8 + 0.1
    a, b, c, d = (p[:, k:k + 1] for k in range(4))
    curve = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t ** 2 * c + t ** 3 * d
    axis = torch.linspace(0, 1, side)
    gy = torch.exp(-((curve[..., :1] - axis) / 0.03) ** 2)
    gx = torch.exp(-((curve[..., 1:] - axis) / 0.03) ** 2)
    return torch.einsum("nky,nkx->nyx", gy, gx).clamp(max=1).unsqueeze(1)


class InkVAE(nn.Module):
    def __init__(self, latent=32):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 64, 384), nn.ReLU())
        self.mu, self.logvar = nn.Linear(384, latent), nn.Linear(384, latent)
        self.dec = nn.Sequential(
            nn.Linear(latent, 384), nn.ReLU(), nn.Linear(384, 32 * 64), nn.ReLU(), nn.Unflatten(1, (32, 8, 8)),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar

    @torch.no_grad()
    def sample(self, n):
        return self.dec(torch.randn(n, self.mu.out_features)).sigmoid()


def negative_elbo(logits, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2, 3))
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar).sum(1)
    return (rec + beta * kl).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=96)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--l2", type=float, default=1e-4)
    args = ap.parse_args()
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(12)

    images = make_strokes(2000, 32, gen)
    model = InkVAE()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=2 * args.l2)

    times, elbo = [], None
    for step in range(args.steps):
        t0 = time.perf_counter()
        x = images[torch.randint(0, len(images), (args.batch_size,), generator=gen)]
        logits, mu, logvar = model(x)
        elbo = negative_elbo(logits, x, mu, logvar, beta=min(1.0, step / 200))
        opt.zero_grad()
        elbo.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step} -elbo {elbo.item():.3f}")
    print(f"final -elbo {elbo.item():.3f} ink per sample {model.sample(64).mean().item():.4f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
