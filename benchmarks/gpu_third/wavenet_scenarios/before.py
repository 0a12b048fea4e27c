"""Draw Monte Carlo scenarios of hourly power prices from a WaveNet, one hour after the other."""
import argparse
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalLayer(nn.Module):
    """Gated causal convolution with two taps, run one time step at a time."""

    def __init__(self, channels, dilation):
        super().__init__()
        self.dilation = dilation
        self.past = nn.Linear(channels, 2 * channels, bias=False)
        self.present = nn.Linear(channels, 2 * channels)
        self.mix = nn.Linear(channels, 2 * channels)

    def reset(self, paths):
        weight = self.mix.weight
        self.history = weight.new_zeros(self.dilation, paths, weight.shape[1])

    def forward(self, x):
        gates = self.past(self.history[0]) + self.present(x)
        self.history = torch.cat([self.history[1:], x.unsqueeze(0)])
        a, b = gates.chunk(2, dim=-1)
        residual, skip = self.mix(torch.tanh(a) * torch.sigmoid(b)).chunk(2, dim=-1)
        return x + residual, skip


class PriceWaveNet(nn.Module):
    def __init__(self, channels, dilations, covariates):
        super().__init__()
        self.inp = nn.Linear(1 + covariates, channels)
        self.layers = nn.ModuleList(CausalLayer(channels, d) for d in dilations)
        self.out = nn.Sequential(nn.ReLU(), nn.Linear(channels, channels), nn.ReLU(),
                                 nn.Linear(channels, 2))

    def reset(self, paths):
        for layer in self.layers:
            layer.reset(paths)

    def forward(self, price, covariates):
        """Mean and scale of the next hour's price, given this hour's."""
        x = self.inp(torch.cat([price, covariates.expand(len(price), -1)], dim=-1))
        total = 0
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        mean, scale = self.out(total).chunk(2, dim=-1)
        return mean, F.softplus(scale) + 1e-3


def calendar_features(hours):
    """Sine and cosine of the hour of the day and of the week."""
    angles = 2 * torch.pi * hours[:, None] / torch.tensor([24.0, 168.0], device=hours.device)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


@torch.inference_mode()
def simulate_block(model, price, calendar):
    """Roll all paths forward over the hours of one block."""
    prices = []
    for covariates in calendar:
        mean, scale = model(price, covariates)
        price = mean + scale * torch.randn_like(mean)
        prices.append(price)
    return price, torch.cat(prices, dim=-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="blocks of hours to simulate")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        paths, channels, stacks, depth, block = 16, 16, 1, 5, 6
    else:
        paths, channels, stacks, depth, block = 4096, 128, 2, 9, 24

    dilations = [2 ** i for _ in range(stacks) for i in range(depth)]
    with device:
        model = PriceWaveNet(channels, dilations, covariates=4).eval()
    model.reset(paths)
    warmup = 2
    calendar = calendar_features(torch.arange((args.steps + warmup) * block, device=device))
    calendar = calendar.split(block)
    price = torch.zeros(paths, 1, device=device)

    for i in range(warmup):
        price, _ = simulate_block(model, price, calendar[i])
    if use_cuda:
        torch.cuda.synchronize()
    means, spreads = [], []
    start = time.perf_counter()
    for i in range(args.steps):
        price, block_prices = simulate_block(model, price, calendar[warmup + i])
        means.append(block_prices.mean())
        spreads.append(block_prices.std(dim=0).mean())
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(f"mean price {torch.stack(means).mean():.5f} mean spread {torch.stack(spreads).mean():.5f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
