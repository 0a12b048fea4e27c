"""Distil a text encoder into a smaller one: soft targets, hidden states and labels."""

import argparse
import json
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


@dataclass
class Config:
    width: int
    depth: int
    heads: int
    vocabulary: int
    length: int
    classes: int


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.mlp(x))


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.places = nn.Embedding(config.length, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.depth))
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.words(tokens) + self.places(places))
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0]), x


class Distiller:
    def __init__(self, teacher, student, bridge, temperature=2.0):
        self.teacher, self.student, self.bridge = teacher.eval(), student, bridge
        self.temperature = temperature
        self.teacher.requires_grad_(False)
        parameters = [*student.parameters(), *bridge.parameters()]
        fused = parameters[0].is_cuda
        self.optimizer = torch.optim.AdamW(parameters, lr=3e-4, fused=fused)

    @torch.no_grad()
    def references(self, tokens):
        logits, states = self.teacher(tokens)
        return F.softmax(logits.float() / self.temperature, -1), states

    def losses(self, tokens, labels, soft, states):
        logits, own = self.student(tokens)
        guess = F.log_softmax(logits.float() / self.temperature, -1)
        imitate = F.kl_div(guess, soft, reduction="batchmean") * self.temperature**2
        align = 1 - F.cosine_similarity(self.bridge(own).float(), states.float(), dim=-1).mean()
        return imitate + align + 0.5 * F.cross_entropy(logits.float(), labels)

    def step(self, tokens, labels):
        with torch.autocast(tokens.device.type, torch.bfloat16):
            soft, states = self.references(tokens)
            loss = self.losses(tokens, labels, soft, states)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.small:
        batch, large, small = 2, Config(64, 2, 2, 500, 16, 5), Config(32, 1, 2, 500, 16, 5)
    else:
        batch, large, small = 64, Config(768, 12, 12, 30528, 128, 20), Config(384, 6, 6, 30528, 128, 20)

    teacher, student = Encoder(large).to(device), Encoder(small).to(device)
    bridge = nn.Linear(small.width, large.width).to(device)
    distiller = Distiller(teacher, student, bridge)
    tokens = torch.randint(large.vocabulary, (16, batch, large.length), device=device)
    labels = torch.randint(large.classes, (16, batch), device=device)
    for step in range(WARMUP + args.steps):
        loss = distiller.step(tokens[step % 16], labels[step % 16])
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(f"last loss {loss.item():.4f}")
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
