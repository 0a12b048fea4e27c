"""Train a text classifier on sentences of different lengths."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Texts(Dataset):
    def __init__(self, count, words, shortest, longest):
        generator = torch.Generator().manual_seed(0)
        lengths = torch.randint(shortest, longest, (1024,), generator=generator).tolist()
        self.texts = [torch.randint(1, words, (length,), generator=generator) for length in lengths]
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.texts[index % len(self.texts)], index % 4


class Collate:
    def __init__(self, context):
        self.context = context

    def __call__(self, samples):
        ids = torch.zeros(len(samples), max(len(text) for text, _ in samples), dtype=torch.long)
        for row, (text, _) in enumerate(samples):
            ids[row, : len(text)] = text
        return ids, torch.tensor([label for _, label in samples])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Classifier(nn.Module):
    def __init__(self, words, context, width, depth, heads, classes):
        super().__init__()
        self.tokens = nn.Embedding(words, width, padding_idx=0)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        mask = ids != 0
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, mask)
        weights = mask[..., None].float()
        return self.head((self.norm(x) * weights).sum(1) / weights.sum(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.small:
        batch, words, context, shortest, longest, width, depth, heads = 4, 50, 64, 4, 16, 32, 2, 2
    else:
        batch, words, context, shortest, longest, width, depth, heads = 64, 20000, 512, 32, 192, 512, 8, 8

    data = Texts(batch * (WARMUP + args.steps), words, shortest, longest)
    loader = DataLoader(
        data,
        batch_size=batch,
        shuffle=True,
        collate_fn=Collate(context),
        num_workers=2,
        pin_memory=device.type == "cuda",
    )
    model = Classifier(words, context, width, depth, heads, 4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    for step, (ids, labels) in enumerate(loader):
        ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(ids), labels)
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
