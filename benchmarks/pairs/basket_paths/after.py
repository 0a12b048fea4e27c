"""Price Asian and barrier options on a basket of correlated assets by Monte Carlo."""

import argparse
import json
import math
import time
from dataclasses import dataclass

import numpy as np
import torch

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


@dataclass
class Market:
    """Quotes as they come from the calibration."""

    spots: np.ndarray
    vols: np.ndarray
    weights: np.ndarray
    correlation: np.ndarray
    rate: float = 0.03

    @classmethod
    def sample(cls, assets, seed):
        rng = np.random.default_rng(seed)
        factors = rng.normal(size=(assets, 4))
        covariance = factors @ factors.T + np.eye(assets) * 2
        scale = np.sqrt(np.diag(covariance))
        weights = rng.uniform(0.5, 1.5, assets)
        return cls(
            spots=rng.uniform(80, 120, assets),
            vols=rng.uniform(0.15, 0.4, assets),
            weights=weights / weights.sum(),
            correlation=covariance / np.outer(scale, scale),
        )


class BasketSimulator:
    def __init__(self, market, paths, dates, maturity, device):
        self.paths, self.dates, self.dt = paths, dates, maturity / dates
        self.discount = math.exp(-market.rate * maturity)
        self.spots = self._put(market.spots, device)[:, None]
        vols = self._put(market.vols, device)[:, None]
        self.weights = self._put(market.weights, device)
        cholesky = self._put(np.linalg.cholesky(market.correlation), device)
        self.drift = (market.rate - 0.5 * vols**2) * self.dt
        self.shock = cholesky * vols * math.sqrt(self.dt)

    @staticmethod
    def _put(values, device):
        return torch.as_tensor(values, dtype=torch.float32, device=device)

    def evolve(self, logs):
        noise = torch.randn_like(logs)
        return logs + self.drift + self.shock @ noise

    def run(self):
        """Average, highest and last level of the basket on each path."""
        logs = self.spots.log().expand(-1, self.paths).contiguous()
        average = torch.zeros(self.paths, dtype=logs.dtype, device=logs.device)
        highest = torch.zeros_like(average)
        for _ in range(self.dates):
            logs = self.evolve(logs)
            level = self.weights @ logs.exp()
            average += level / self.dates
            highest = torch.maximum(highest, level)
        return average, highest, level


class Book:
    """Payoffs on the basket for a ladder of strikes."""

    def __init__(self, strikes, barrier):
        self.strikes, self.barrier = strikes, barrier

    def payoffs(self, average, highest, last):
        alive = highest < self.barrier
        values = []
        for strike in self.strikes:
            values.append((average - strike).clamp(min=0).mean())
            values.append(((last - strike).clamp(min=0) * alive).mean())
        return torch.stack(values)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assets, paths, dates = (4, 2000, 8) if args.small else (16, 400_000, 52)

    simulator = BasketSimulator(Market.sample(assets, 7), paths, dates, 1.0, device)
    book = Book([90.0, 95.0, 100.0, 105.0, 110.0], 140.0)
    prices = 0
    for step in range(WARMUP + args.steps):
        prices = prices + simulator.discount * book.payoffs(*simulator.run())
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    print("prices", [round(p, 3) for p in (prices / (WARMUP + args.steps)).tolist()])
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
