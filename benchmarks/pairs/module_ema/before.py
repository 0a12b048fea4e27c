"""Train a masked autoencoder with a module, a callback and a fit loop."""

import argparse
import copy
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


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Autoencoder(nn.Module):
    def __init__(self, inputs, patches, width, depth, heads):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.position = nn.Parameter(torch.randn(1, patches, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.last = nn.Linear(width, inputs)

    def training_step(self, x):
        keep = (torch.rand(x.shape[:2], device=x.device) > 0.5)[..., None]
        y = self.last(self.blocks(self.first(x * keep) + self.position))
        return F.mse_loss(y, x)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


class EMA:
    def __init__(self, decay):
        self.decay = decay

    def on_fit_start(self, module):
        self.average = copy.deepcopy(module).requires_grad_(False)

    @torch.no_grad()
    def on_train_batch_end(self, module):
        for mean, p in zip(self.average.parameters(), module.parameters(), strict=True):
            mean.copy_(self.decay * mean + (1 - self.decay) * p)


class Trainer:
    def __init__(self, steps, device, callbacks):
        self.steps, self.device, self.callbacks = steps, device, callbacks

    def fit(self, module, images, batch):
        optimizer = module.configure_optimizers()
        for callback in self.callbacks:
            callback.on_fit_start(module)
        for step in range(WARMUP + self.steps):
            x = images[torch.randint(len(images), (batch,), device=self.device)]
            with torch.autocast(self.device.type, torch.bfloat16):
                loss = module.training_step(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for callback in self.callbacks:
                callback.on_train_batch_end(module)
            if step + 1 == WARMUP:
                begin = now(self.device)
        return (now(self.device) - begin) / self.steps * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, patches, inputs, width, depth, heads = (2, 16, 12, 32, 2, 2) if args.small else (32, 64, 768, 384, 24, 6)

    images = torch.randn(4 * batch, patches, inputs, device=device)
    module = Autoencoder(inputs, patches, width, depth, heads).to(device)
    ms = Trainer(args.steps, device, [EMA(0.999)]).fit(module, images, batch)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
