"""Complete server-log lines for a batch of editors: decoder with a preallocated key/value cache."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

LINE_PARTS = ["INFO", "WARN", "ERROR", "db.pool", "http.get", "cache", "worker", "timeout", "retry", "ok",
              "user=", "ms=", "status=200", "status=503", "latency", "closed", "opened", "reconnect"]
MAX_TOKENS = 128
EOS = 0


class ByteTokenizer:
    vocab_size = 128

    def encode(self, text):
        return list(text.encode("ascii"))

    def decode(self, ids):
        return bytes(ids).decode("ascii")


class KVCache:
    """One [layers, 2, batch, heads, MAX_TOKENS, head_dim] block, filled from the left."""

    def __init__(self, layers, batch, heads, head_dim):
        self.data = torch.empty(layers, 2, batch, heads, MAX_TOKENS, head_dim)
        self.length = 0

    def append(self, layer, k, v):
        end = self.length + k.size(2)
        keys, values = self.data[layer]
        keys[:, :, self.length:end] = k
        values[:, :, self.length:end] = v
        return keys[:, :, :end], values[:, :, :end]


class Block(nn.Module):
    def __init__(self, dim, heads, index):
        super().__init__()
        self.heads, self.index = heads, index
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        k, v = cache.append(self.index, k, v)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LogDecoder(nn.Module):
    def __init__(self, vocab, dim=256, heads=4, layers=4):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(MAX_TOKENS, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, i) for i in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def new_cache(self, batch):
        return KVCache(len(self.blocks), batch, self.heads, self.head_dim)

    def forward(self, ids, cache):
        start = cache.length
        x = self.tok(ids) + self.pos.weight[start:start + ids.size(1)]
        for block in self.blocks:
            x = block(x, cache)
        cache.length = start + ids.size(1)
        # only the last position is ever sampled
        return self.head(self.norm(x[:, -1]))


@torch.inference_mode()
def complete(model, prompts, new_tokens):
    """Greedy completion of equally long prompts; returns tokens and their log-probabilities."""
    cache = model.new_cache(prompts.size(0))
    out = torch.empty(prompts.size(0), new_tokens, dtype=torch.long)
    logps = torch.empty(prompts.size(0), new_tokens)
    ids = prompts
    for i in range(new_tokens):
        logp = F.log_softmax(model(ids, cache), dim=-1)
        logps[:, i], out[:, i] = logp.max(dim=-1)
        ids = out[:, i:i + 1]
    return out, logps


def editor_requests(tokenizer, batch, width, seed=23):
    """Cursor contexts: the last `width` characters before each cursor."""
    rng = random.Random(seed)
    while True:
        lines = []
        for _ in range(batch):
            text = ""
            while len(text) < width:
                text += rng.choice(LINE_PARTS) + " "
            lines.append(tokenizer.encode(text[-width:]))
        yield torch.tensor(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="batches of requests")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=16)
    args = parser.parse_args()

    torch.manual_seed(0)
    tokenizer = ByteTokenizer()
    model = LogDecoder(tokenizer.vocab_size)
    nn.init.normal_(model.head.weight, std=0.15)
    model.eval()
    requests = editor_requests(tokenizer, args.batch_size, args.context)

    score, chars = 0.0, 0
    for _ in range(args.steps):
        out, logps = complete(model, next(requests), args.new_tokens)
        score += logps.mean().item()
        chars += out.numel()
    print(f"completed {chars} characters, mean log-prob {score / max(args.steps, 1):.4f}")


if __name__ == "__main__":
    main()
