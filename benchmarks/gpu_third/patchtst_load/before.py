"""PatchTST with individual heads: forecast the load of many electricity clients."""
import argparse
import json
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    """Transformer over the patches of each channel by itself."""

    def __init__(self, patch_len, stride, patches, dim, depth, heads):
        super().__init__()
        self.patch_len, self.stride = patch_len, stride
        self.embed = nn.Linear(patch_len, dim)
        self.pos = nn.Parameter(torch.randn(patches, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, x):
        B, C, _ = x.shape
        patches = x.unfold(-1, self.patch_len, self.stride)
        z = self.embed(patches) + self.pos
        return self.encoder(z.flatten(0, 1)).view(B, C, -1)


class IndividualHead(nn.Module):
    """A linear forecaster of its own for every channel."""

    def __init__(self, channels, features, horizon):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(features, horizon) for _ in range(channels))

    def forward(self, z):
        out = []
        for i, linear in enumerate(self.linears):
            out.append(linear(z[:, i]))
        return torch.stack(out, dim=1)


class PatchTST(nn.Module):
    def __init__(self, channels, lookback, horizon, patch_len=16, stride=8, dim=128, depth=3, heads=8):
        super().__init__()
        patches = (lookback - patch_len) // stride + 1
        self.backbone = Backbone(patch_len, stride, patches, dim, depth, heads)
        self.head = IndividualHead(channels, patches * dim, horizon)

    def forward(self, x):
        # instance normalisation, undone on the forecast
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True) + 1e-5
        z = self.backbone((x - mean) / std)
        return self.head(z) * std + mean


def client_loads(channels, length, device):
    """Daily and weekly cycles with noise, hourly."""
    hours = torch.arange(length, device=device)
    phase = torch.rand(channels, 1, device=device) * 2 * math.pi
    scale = torch.rand(channels, 1, device=device) + 0.5
    day = torch.sin(2 * math.pi * hours / 24 + phase)
    week = 0.5 * torch.sin(2 * math.pi * hours / 168 + phase)
    return scale * (day + week) + 0.1 * torch.randn(channels, length, device=device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        channels, lookback, horizon, batch_size, dim, depth, heads = 7, 64, 16, 4, 32, 1, 2
    else:
        channels, lookback, horizon, batch_size, dim, depth, heads = 321, 336, 96, 16, 128, 3, 8

    loads = client_loads(channels, 8000, device)
    with device:
        model = PatchTST(channels, lookback, horizon, dim=dim, depth=depth, heads=heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=use_cuda)
    windows = loads.unfold(1, lookback + horizon, 1)

    def train_step():
        starts = torch.randint(0, windows.shape[1], (batch_size,), device=device)
        batch = windows[:, starts].transpose(0, 1)
        x, y = batch[..., :lookback], batch[..., lookback:]
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            forecast = model(x)
        loss = F.mse_loss(forecast.float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    for _ in range(5):
        train_step()
    if use_cuda:
        torch.cuda.synchronize()
    losses = []
    start = time.perf_counter()
    for _ in range(args.steps):
        losses.append(train_step())
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    losses = torch.stack(losses).cpu()
    print(f"mse first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
