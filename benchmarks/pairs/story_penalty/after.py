"""Serve story continuations: sample token by token from a decoder with a key-value cache."""

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
class Sampling:
    temperature: float = 0.9
    top_k: int = 50
    repetition: float = 1.2


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache, start):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        cache[0, :, :, start : start + n] = k
        cache[1, :, :, start : start + n] = v
        keys, values = cache[:, :, :, : start + n]
        y = F.scaled_dot_product_attention(q, keys, values, is_causal=n > 1)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, vocabulary, context, width, depth, heads):
        super().__init__()
        self.heads, self.width, self.context = heads, width, context
        self.tokens, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def new_cache(self, batch):
        shape = (len(self.blocks), 2, batch, self.heads, self.context, self.width // self.heads)
        return self.tokens.weight.new_zeros(shape)

    def forward(self, ids, cache, start):
        x = self.tokens(ids) + self.position.weight[start : start + ids.shape[1]]
        for block, part in zip(self.blocks, cache, strict=False):
            x = block(x, part, start)
        return F.linear(self.norm(x[:, -1]), self.tokens.weight).float()


def discourage(logits, written, factor):
    """Repetition penalty of CTRL: tokens already written become less likely."""
    chosen = logits.gather(1, written)
    chosen = torch.where(chosen < 0, chosen * factor, chosen / factor)
    return logits.scatter_(1, written, chosen)


def sample(logits, options):
    values, indices = logits.div(options.temperature).topk(options.top_k)
    choice = torch.multinomial(values.softmax(-1), 1)
    return indices.gather(1, choice)


class Storyteller:
    def __init__(self, model, options):
        self.model, self.options = model, options

    @torch.inference_mode()
    def continue_stories(self, prompts, length):
        cache = self.model.new_cache(len(prompts))
        written = prompts[:, :0]
        ids, start = prompts, 0
        while written.shape[1] < length:
            logits = self.model(ids, cache, start)
            if self.options.repetition != 1.0:
                logits = discourage(logits, written, self.options.repetition)
            start += ids.shape[1]
            ids = sample(logits, self.options)
            written = torch.cat([written, ids], 1)
        return written


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = (2, 8, 6, 32, 2, 2, 500) if args.small else (4, 48, 16, 1024, 16, 16, 32_000)
    batch, prompt, length, width, depth, heads, vocabulary = sizes

    model = Decoder(vocabulary, prompt + length, width, depth, heads)
    model = model.to(device, torch.bfloat16 if device.type == "cuda" else torch.float32).eval()
    storyteller = Storyteller(model, Sampling())
    requests = torch.randint(vocabulary, (WARMUP + args.steps, batch, prompt))
    answers = []
    for step in range(WARMUP + args.steps):
        stories = storyteller.continue_stories(requests[step].to(device), length)
        answers.append(stories.tolist())
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    print("answers", len(answers), sum(answers[-1][0]))
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
