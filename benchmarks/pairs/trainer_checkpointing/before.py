"""Train a language model with a Trainer."""

import argparse
import dataclasses
import json
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


@dataclasses.dataclass
class TrainingArguments:
    max_steps: int
    per_device_train_batch_size: int = 8
    learning_rate: float = 3e-4
    max_grad_norm: float = 1.0
    bf16: bool = True
    gradient_checkpointing: bool = False
    dataloader_num_workers: int = 2


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
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self, words, length, width, depth, heads):
        super().__init__()
        self.checkpointing = False
        self.tokens = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(1, length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.position
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        return self.head(self.norm(x))


class Trainer:
    def __init__(self, model, arguments, data, device):
        self.model, self.arguments, self.device = model.to(device), arguments, device
        self.model.checkpointing = arguments.gradient_checkpointing
        self.loader = DataLoader(
            data,
            batch_size=arguments.per_device_train_batch_size,
            shuffle=True,
            num_workers=arguments.dataloader_num_workers,
            pin_memory=device.type == "cuda",
        )
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, fused=device.type == "cuda")

    def training_step(self, ids):
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.arguments.bf16):
            logits = self.model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.arguments.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def train(self):
        for step, (ids,) in enumerate(self.loader):
            self.training_step(ids.to(self.device, non_blocking=True))
            if step + 1 == WARMUP:
                begin = now(self.device)
            if step + 1 == self.arguments.max_steps:
                break
        return (now(self.device) - begin) / (self.arguments.max_steps - WARMUP) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, length, words, width, depth, heads = (2, 16, 50, 32, 2, 2) if args.small else (16, 512, 16384, 768, 12, 12)

    steps = WARMUP + args.steps
    arguments = TrainingArguments(max_steps=steps, per_device_train_batch_size=batch, gradient_checkpointing=True)
    data = TensorDataset(torch.randint(words, (batch * steps, length + 1)))
    ms = Trainer(LanguageModel(words, length, width, depth, heads), arguments, data, device).train()
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
