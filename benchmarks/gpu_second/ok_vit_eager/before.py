"""Train a ViT classifier on uint8 images held in memory."""
import argparse
import json
import os
import resource
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class CropDataset(Dataset):
    """Random crops and flips of uint8 images; normalisation happens on the device."""

    def __init__(self, images, labels, crop):
        self.images, self.labels, self.crop = images, labels, crop

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        img = self.images[i % len(self.images)]
        y, x = rng.integers(0, img.shape[-1] - self.crop + 1, 2)
        img = img[:, y:y + self.crop, x:x + self.crop]
        if rng.random() < 0.5:
            img = img.flip(-1)
        return img, self.labels[i]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, N, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, D)
        x = x + self.proj(y)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, size, patch, dim, depth, heads, classes):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.norm(self.blocks(x).mean(dim=1)))


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
        batch_size, size, stored, model_args, workers = 4, 32, 16, (32, 8, 64, 2, 2, 100), 1
    else:
        batch_size, size, stored = 128, 224, 512
        model_args, workers = (224, 16, 1024, 10, 16, 1000), min(6, os.cpu_count())

    images = torch.randint(0, 256, (stored, 3, size + 32, size + 32), dtype=torch.uint8)
    labels = torch.randint(0, model_args[-1], ((args.steps + 40) * batch_size,))
    loader = DataLoader(CropDataset(images, labels, size), batch_size=batch_size, shuffle=True,
                        drop_last=True, num_workers=workers, pin_memory=use_cuda,
                        persistent_workers=True, prefetch_factor=2)

    with device:
        model = ViT(*model_args)
    # the model is kept in float32 and the matmuls run in bfloat16 under autocast
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05,
                                  fused=use_cuda)
    mean = torch.tensor([123.7, 116.3, 103.5], device=device).view(1, 3, 1, 1)
    inv_std = 1 / torch.tensor([58.4, 57.1, 57.4], device=device).view(1, 3, 1, 1)
    batches = iter(loader)

    def train_step():
        x, y = next(batches)
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        x = (x.float() - mean) * inv_std
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(10):
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
    print(f"loss first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
