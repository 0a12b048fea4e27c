"""Simulate the flow past a cylinder with a lattice Boltzmann method (D2Q9)."""

import argparse
import json
import time

import torch

WARMUP = 10

CXS = [0, 0, 1, 1, 1, 0, -1, -1, -1]
CYS = [0, 1, 1, 0, -1, -1, -1, 0, 1]
WEIGHTS = [4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36]
OPPOSITE = [0, 5, 6, 7, 8, 1, 2, 3, 4]
TAU = 0.6


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def initial(height, width, device):
    """Populations of a slightly disturbed stream to the right, one of nine directions per cell."""
    f = torch.ones(9, height, width, device=device).permute(1, 2, 0)
    f += 0.01 * torch.randn(height, width, device=device)[:, :, None]
    column = torch.arange(width, device=device)
    f[:, :, 3] += 2 * (1 + 0.2 * torch.cos(2 * torch.pi * column / width * 4))
    f *= (100 / f.sum(2))[:, :, None]
    return f


def cylinder(height, width, device):
    y = torch.arange(height, device=device)[:, None]
    x = torch.arange(width, device=device)[None]
    return (x - width / 4) ** 2 + (y - height / 2) ** 2 < (height / 4) ** 2


class Flow:
    def __init__(self, height, width, device):
        self.f = initial(height, width, device)
        self.wall = cylinder(height, width, device)
        self.feq = torch.empty_like(self.f)
        self.cxs = torch.tensor(CXS, dtype=torch.float32, device=device)
        self.cys = torch.tensor(CYS, dtype=torch.float32, device=device)

    def drift(self):
        for i, (cx, cy) in enumerate(zip(CXS, CYS, strict=False)):
            if cx or cy:
                self.f[:, :, i] = torch.roll(self.f[:, :, i], (cy, cx), (0, 1))

    def moments(self):
        rho = self.f.sum(2)
        ux = (self.f * self.cxs).sum(2) / rho
        uy = (self.f * self.cys).sum(2) / rho
        return rho, ux, uy

    def collide(self):
        rho, ux, uy = self.moments()
        square = 1.5 * (ux**2 + uy**2)
        for i, (cx, cy, w) in enumerate(zip(CXS, CYS, WEIGHTS, strict=False)):
            cu = 3 * (cx * ux + cy * uy)
            self.feq[:, :, i] = rho * w * (1 + cu + 0.5 * cu**2 - square)
        bounced = self.f.clone()
        self.f.lerp_(self.feq, 1 / TAU)
        for i, j in enumerate(OPPOSITE):
            self.f[:, :, i] = torch.where(self.wall, bounced[:, :, j], self.f[:, :, i])

    def advance(self, ticks):
        for _ in range(ticks):
            self.drift()
            self.collide()

    def enstrophy(self):
        _, ux, uy = self.moments()
        ux, uy = ux.masked_fill(self.wall, 0), uy.masked_fill(self.wall, 0)
        curl = (ux.roll(-1, 0) - ux.roll(1, 0)) - (uy.roll(-1, 1) - uy.roll(1, 1))
        return (curl**2).mean()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    height, width, ticks = (24, 48, 2) if args.small else (1536, 3072, 5)

    flow = Flow(height, width, device)
    history = []
    for step in range(WARMUP + args.steps):
        flow.advance(ticks)
        history.append(flow.enstrophy())
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    print("enstrophy", torch.stack(history)[-1].item())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
