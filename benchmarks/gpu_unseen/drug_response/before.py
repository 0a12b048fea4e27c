"""Latent ODE for drug concentrations: encode the first samples of a virtual patient, integrate, decode the curve."""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchdiffeq


def simulate_patients(n_patients, times, n_analytes, seed):
    """Two-compartment curves with patient-specific rates and assay noise."""
    g = torch.Generator().manual_seed(seed)
    uptake = 0.6 + torch.rand(n_patients, 1, n_analytes, generator=g)
    removal = 0.1 + 0.3 * torch.rand(n_patients, 1, n_analytes, generator=g)
    dose = 1 + torch.rand(n_patients, 1, n_analytes, generator=g)
    t = times.view(1, -1, 1)
    curve = dose * (torch.exp(-removal * t) - torch.exp(-uptake * t))
    return curve + 0.01 * torch.randn(curve.shape, generator=g)


class Kinetics(nn.Module):
    def __init__(self, latent, width):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(latent, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, latent)
        )
        self.decay = nn.Parameter(torch.zeros(latent))

    def forward(self, t, z):
        return self.inner(z) - F.softplus(self.decay) * z


class LatentODE(nn.Module):
    def __init__(self, n_analytes, latent, width):
        super().__init__()
        self.reader = nn.GRU(n_analytes + 1, width, batch_first=True)
        self.to_state = nn.Linear(width, 2 * latent)
        self.kinetics = Kinetics(latent, width)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, n_analytes))

    def forward(self, seen, seen_times, times):
        stamps = seen_times.view(1, -1, 1).expand(seen.shape[0], -1, 1)
        _, h = self.reader(torch.cat([seen, stamps], dim=-1).flip(1))
        mean, log_var = self.to_state(h[-1]).chunk(2, dim=-1)
        z0 = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        path = torchdiffeq.odeint_adjoint(self.kinetics, z0, times, method="rk4")
        return self.decoder(path).transpose(0, 1), mean, log_var


def elbo_loss(predicted, observed, mean, log_var, noise=0.05, weight=1e-3):
    fit = ((predicted - observed) / noise).pow(2).mean()
    kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).mean()
    return fit + weight * kl


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    opt = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    n_patients = 64 if opt.small else 65536
    batch = 8 if opt.small else 16384
    n_analytes = 3 if opt.small else 12
    n_times = 6 if opt.small else 12
    n_seen = 3 if opt.small else 5

    times = torch.cumsum(torch.rand(n_times) * 0.5 + 0.1, dim=0)
    times = times - times[0]
    curves = simulate_patients(n_patients, times, n_analytes, seed=1).to(device)
    times = times.to(device)

    model = LatentODE(n_analytes, latent=8 if opt.small else 64, width=16 if opt.small else 512).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=opt.steps + 10)

    total = torch.zeros((), device=device)
    start = time.perf_counter()
    for step in range(opt.steps + 10):
        if step == 10:
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        rows = torch.randint(0, n_patients, (batch,), device=device)
        observed = curves[rows]
        predicted, mean, log_var = model(observed[:, :n_seen], times[:n_seen], times)
        loss = elbo_loss(predicted, observed, mean, log_var)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.detach()
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start

    print("mean loss:", (total / (opt.steps + 10)).item())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0
    print(json.dumps({"ms": 1000 * seconds / opt.steps, "peak_mb": peak}))


if __name__ == "__main__":
    main()
