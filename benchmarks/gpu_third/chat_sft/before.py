"""Fine-tune a causal language model on short chat turns."""
import argparse
import json
import resource
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class ChatDataset(Dataset):
    """Tokenized conversations, one array of token ids per row."""

    def __init__(self, size, vocab, longest, seed=0):
        rng = np.random.default_rng(seed)
        lengths = rng.lognormal(np.log(longest * 0.4), 0.4, size).clip(8, longest).astype(int)
        self.rows = [torch.from_numpy(rng.integers(3, vocab, n)) for n in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Collator:
    """Right-pads a list of rows into input ids and labels."""

    def __init__(self, pad_id, max_length):
        self.pad_id, self.max_length = pad_id, max_length

    def __call__(self, rows):
        rows = [row[:self.max_length] for row in rows]
        width = self.max_length
        input_ids = torch.full((len(rows), width), self.pad_id, dtype=torch.long)
        labels = torch.full((len(rows), width), -100, dtype=torch.long)
        for i, row in enumerate(rows):
            input_ids[i, :len(row)] = row
            labels[i, :len(row) - 1] = row[1:]
        return input_ids, labels


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        # rows are padded on the right, so the causal mask hides the padding as well
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, D))
        return x + self.mlp(self.norm2(x))


class CausalLM(nn.Module):
    def __init__(self, vocab, dim, depth, heads, context):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        nn.init.normal_(self.tok.weight, std=0.02)
        nn.init.normal_(self.pos.weight, std=0.02)
        self.head.weight = self.tok.weight

    def forward(self, input_ids):
        pos = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.tok(input_ids) + self.pos(pos)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batches(loader):
    while True:
        yield from loader


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
        vocab, dim, depth, heads, max_length, longest, batch_size = 512, 64, 2, 2, 128, 40, 4
    else:
        vocab, dim, depth, heads, max_length, longest, batch_size = 32000, 1024, 16, 16, 1024, 400, 16

    dataset = ChatDataset(4096 if not args.small else 128, vocab, longest)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True,
                        collate_fn=Collator(pad_id=0, max_length=max_length), pin_memory=use_cuda)
    with device:
        model = CausalLM(vocab, dim, depth, heads, max_length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=use_cuda)
    stream = batches(loader)

    def train_step():
        input_ids, labels = next(stream)
        input_ids = input_ids.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            logits = model(input_ids)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-100)
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
    print(f"loss first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
