"""Multi-horizon load forecasting with a stack of diagonal state-space (S4D) layers."""
import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    n_series: int = 24
    length: int = 6000
    context: int = 384
    horizon: int = 48
    d_model: int = 48
    d_state: int = 16
    n_layers: int = 2
    batch_size: int = 16
    steps: int = 40
    lr: float = 2e-3
    warmup: int = 8
    val_every: int = 20
    seed: int = 1


def make_series(cfg):
    rng = np.random.default_rng(cfg.seed)
    t = np.arange(cfg.length)
    out = []
    for _ in range(cfg.n_series):
        daily = np.sin(2 * np.pi * (t / 24 + rng.random())) * rng.uniform(0.5, 1.5)
        weekly = np.sin(2 * np.pi * (t / 168 + rng.random())) * rng.uniform(0.2, 0.8)
        ar = np.zeros(cfg.length)
        eps = rng.normal(0, 0.15, cfg.length)
        for k in range(1, cfg.length):
            ar[k] = 0.95 * ar[k - 1] + eps[k]
        out.append(daily + weekly + ar + rng.uniform(2, 5))
    return torch.tensor(np.stack(out), dtype=torch.float32)


class Windows:
    def __init__(self, series, cfg, lo, hi):
        self.cfg = cfg
        self.views = series[:, lo:hi].unfold(1, cfg.context + cfg.horizon, 1)

    def sample(self, generator):
        n, w, _ = self.views.shape
        b = self.cfg.batch_size
        s = torch.randint(n, (b,), generator=generator)
        k = torch.randint(w, (b,), generator=generator)
        win = self.views[s, k]
        x, y = win[:, :self.cfg.context], win[:, self.cfg.context:]
        mu = x.mean(1, keepdim=True)
        sd = x.std(1, keepdim=True) + 1e-5
        return (x - mu) / sd, (y - mu) / sd


class S4DKernel(nn.Module):
    """k[h, l] = 2 Re sum_n C[h,n] B[h,n] exp(l dt A[h,n])"""

    def __init__(self, d_model, d_state, dt_min=1e-3, dt_max=1e-1):
        super().__init__()
        n = d_state // 2
        u = torch.rand(d_model)
        self.log_dt = nn.Parameter(u * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min))
        self.C = nn.Parameter(torch.view_as_real(torch.randn(d_model, n, dtype=torch.cfloat)))
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(d_model, n)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(n).float().repeat(d_model, 1))

    def forward(self, L):
        dt = self.log_dt.exp()
        A = torch.complex(-self.log_A_real.exp(), self.A_imag)
        dtA = A * dt.unsqueeze(-1)
        C = torch.view_as_complex(self.C) * (dtA.exp() - 1.0) / A
        vander = torch.exp(dtA.unsqueeze(-1) * torch.arange(L))
        return 2 * torch.einsum("hn,hnl->hl", C, vander).real


class S4DBlock(nn.Module):
    def __init__(self, d_model, d_state, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.kernel = S4DKernel(d_model, d_state)
        self.skip = nn.Parameter(torch.randn(d_model))
        self.out = nn.Linear(d_model, 2 * d_model)
        self.drop = nn.Dropout(dropout)

    def ssm(self, u):
        # u: (B, H, L)
        L = u.size(-1)
        k = self.kernel(L)
        k_f = torch.fft.rfft(k, n=2 * L)
        u_f = torch.fft.rfft(u, n=2 * L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L]
        return y + u * self.skip.unsqueeze(-1)

    def forward(self, x):
        h = self.norm(x).transpose(1, 2)
        h = F.gelu(self.ssm(h)).transpose(1, 2)
        return x + self.drop(F.glu(self.out(h), dim=-1))


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Linear(1, cfg.d_model)
        self.blocks = nn.ModuleList(S4DBlock(cfg.d_model, cfg.d_state) for _ in range(cfg.n_layers))
        self.norm = nn.LayerNorm(cfg.d_model)
        self.head = nn.Linear(cfg.d_model, cfg.horizon * 3)
        self.horizon = cfg.horizon

    def forward(self, x):
        h = self.embed(x.unsqueeze(-1))
        for blk in self.blocks:
            h = blk(h)
        return self.head(self.norm(h[:, -1])).view(-1, self.horizon, 3)


def quantile_loss(pred, y, q=(0.1, 0.5, 0.9)):
    q = torch.tensor(q)
    e = y.unsqueeze(-1) - pred
    return torch.maximum(q * e, (q - 1) * e).mean()


def param_groups(model, lr):
    ssm = [p for n, p in model.named_parameters() if ".kernel." in n]
    rest = [p for n, p in model.named_parameters() if ".kernel." not in n]
    return [{"params": rest, "lr": lr, "weight_decay": 0.01},
            {"params": ssm, "lr": min(lr, 1e-3), "weight_decay": 0.0}]


@torch.no_grad()
def validate(model, windows, batches=2):
    model.eval()
    g = torch.Generator().manual_seed(0)
    total = 0.0
    for _ in range(batches):
        x, y = windows.sample(g)
        total += quantile_loss(model(x), y).item()
    model.train()
    return total / batches


def main():
    ap = argparse.ArgumentParser()
    for name, f in Config.__dataclass_fields__.items():
        ap.add_argument("--" + name.replace("_", "-"), type=f.type, default=f.default)
    cfg = Config(**vars(ap.parse_args()))
    torch.manual_seed(cfg.seed)
    series = make_series(cfg)
    cut = int(0.8 * cfg.length)
    train, val = Windows(series, cfg, 0, cut), Windows(series, cfg, cut, cfg.length)
    model = Forecaster(cfg)
    opt = torch.optim.AdamW(param_groups(model, cfg.lr))
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / cfg.warmup) * 0.5 * (1 + math.cos(math.pi * s / cfg.steps)))
    g = torch.Generator().manual_seed(cfg.seed)
    times, running = [], None
    for step in range(1, cfg.steps + 1):
        t0 = time.perf_counter()
        x, y = train.sample(g)
        loss = quantile_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        times.append(time.perf_counter() - t0)
        if step % 10 == 0:
            print(f"step {step:3d}  loss {running:.5f}  {1e3 * np.median(times[-10:]):.0f} ms/step")
        if step % cfg.val_every == 0:
            print(f"          val quantile loss {validate(model, val):.5f}")


if __name__ == "__main__":
    main()
