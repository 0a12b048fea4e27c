"""A text-completion service: requests come in, a small GPT continues each prompt greedily."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = "abcdefghijklmnopqrstuvwxyz .,!?'\n0123456789"
CONTEXT = 160
WORDS = "the train to north leaves at nine from platform two please keep your ticket and mind the gap".split()


class CharTokenizer:
    def __init__(self):
        self.index = {c: i for i, c in enumerate(CHARS)}

    def encode(self, text):
        return [self.index[c] for c in text]

    def decode(self, ids):
        return "".join(CHARS[i] for i in ids)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, past):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if past:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        past[:] = [k, v]
        # the prompt is the only call with several positions
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, past):
        x = x + self.attn(self.ln1(x), past)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, dim=160, heads=5, layers=5):
        super().__init__()
        self.tok = nn.Embedding(len(CHARS), dim)
        self.pos = nn.Embedding(CONTEXT, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(CHARS), bias=False)

    def forward(self, ids, cache, start):
        x = self.tok(ids) + self.pos(torch.arange(start, start + ids.size(1)))
        for block, past in zip(self.blocks, cache):
            x = block(x, past)
        return self.head(self.norm(x))

    @torch.inference_mode()
    def generate(self, ids, max_new_tokens):
        cache = [[] for _ in self.blocks]
        start, new = 0, ids
        for _ in range(max_new_tokens):
            logits = self(new, cache, start)
            start += new.size(1)
            next_id = logits[:, -1].argmax(-1, keepdim=True)
            new = next_id
            ids = torch.cat([ids, next_id], dim=1)
        return ids


class CompletionService:
    def __init__(self, model, tokenizer, max_new_tokens=16):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        self.served = 0

    def handle(self, request):
        ids = torch.tensor([self.tokenizer.encode(request["prompt"])])
        out = self.model.generate(ids, self.max_new_tokens)[0].tolist()
        self.served += 1
        return {"id": request["id"], "text": self.tokenizer.decode(out[ids.size(1):])}


def make_requests(count, seed):
    rng = random.Random(seed)
    for i in range(count):
        prompt = " ".join(rng.choice(WORDS) for _ in range(40))
        yield {"id": i, "prompt": prompt[:rng.randint(50, 90)]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    service = CompletionService(GPT(), CharTokenizer())
    checksum = 0
    for request in make_requests(args.steps, seed=0):
        reply = service.handle(request)
        checksum = (checksum * 31 + sum(map(ord, reply["text"]))) % 1000003
    print(f"served {service.served}, checksum {checksum}")


if __name__ == "__main__":
    main()
