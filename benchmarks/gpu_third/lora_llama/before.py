"""LoRA fine-tuning of a Llama-style decoder."""
import argparse
import json
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    """Frozen linear layer with a trainable low-rank update."""

    def __init__(self, fan_in, fan_out, dtype, rank=16, alpha=32):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in, dtype=dtype).normal_(std=0.02),
                                   requires_grad=False)
        self.lora_a = nn.Parameter(torch.empty(rank, fan_in))
        self.lora_b = nn.Parameter(torch.zeros(fan_out, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.scaling = alpha / rank

    def forward(self, x):
        weight = self.weight + self.scaling * (self.lora_b @ self.lora_a)
        return F.linear(x, weight)


def rotary_tables(length, head_dim, dtype, base=10000.0):
    freqs = base ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(length), freqs)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Block(nn.Module):
    def __init__(self, dim, hidden, heads, dtype):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.RMSNorm(dim, eps=1e-5, dtype=dtype).requires_grad_(False)
        self.norm2 = nn.RMSNorm(dim, eps=1e-5, dtype=dtype).requires_grad_(False)
        self.q, self.k, self.v, self.o = (LoRALinear(dim, dim, dtype) for _ in range(4))
        self.gate, self.up = (LoRALinear(dim, hidden, dtype) for _ in range(2))
        self.down = LoRALinear(hidden, dim, dtype)

    def forward(self, x, cos, sin):
        B, T, D = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, D))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, hidden, depth, heads, context, dtype):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, dtype=dtype).requires_grad_(False)
        self.blocks = nn.ModuleList(Block(dim, hidden, heads, dtype) for _ in range(depth))
        self.norm = nn.RMSNorm(dim, eps=1e-5, dtype=dtype).requires_grad_(False)
        self.head = nn.Linear(dim, vocab, bias=False, dtype=dtype).requires_grad_(False)
        cos, sin = rotary_tables(context, dim // heads, dtype)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, ids):
        x = self.tok(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    dtype = torch.bfloat16 if use_cuda else torch.float32
    if args.small:
        vocab, dim, hidden, depth, heads, context, batch_size = 500, 64, 160, 2, 2, 32, 2
    else:
        vocab, dim, hidden, depth, heads, context, batch_size = 32000, 4096, 11008, 6, 32, 256, 4

    with device:
        model = Decoder(vocab, dim, hidden, depth, heads, context, dtype)
        tokens = torch.randint(0, vocab, (256, context + 1))
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=2e-4, weight_decay=0.0, fused=use_cuda)

    def train_step():
        rows = tokens[torch.randint(0, len(tokens), (batch_size,), device=device)]
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapters, 1.0)
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
