"""Train an LSTM that forecasts a series."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Forecast(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.cell = nn.LSTMCell(inputs, width)
        self.last = nn.Linear(width, inputs)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], self.cell.hidden_size, device=x.device)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.last(h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, length, inputs, width = (4, 8, 4, 16) if args.small else (256, 192, 32, 512)

    series = torch.randn(4 * batch, length + 1, inputs, device=device).cumsum(1) / length**0.5
    model = Forecast(inputs, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(WARMUP + args.steps):
        rows = series[torch.randint(len(series), (batch,), device=device)]
        loss = F.mse_loss(model(rows[:, :-1]), rows[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
