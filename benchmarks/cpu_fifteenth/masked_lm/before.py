"""Masked-language-model pretraining of a small encoder on a synthetic corpus."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 6000
PAD, MASK, FIRST = 0, 1, 2
SEQ_LEN = 64
IGNORE = -100


def make_corpus(sentences, seed):
    """Zipf-distributed words; every word is followed by a preferred successor half of the time."""
    gen = torch.Generator().manual_seed(seed)
    ranks = torch.arange(1, VOCAB - FIRST + 1, dtype=torch.float)
    probs = 1.0 / ranks
    words = torch.multinomial(probs, sentences * SEQ_LEN, replacement=True, generator=gen)
    words = words.view(sentences, SEQ_LEN)
    successor = torch.randperm(VOCAB - FIRST, generator=gen)
    follow = torch.rand(sentences, SEQ_LEN, generator=gen) < 0.5
    for t in range(1, SEQ_LEN):
        words[:, t] = torch.where(follow[:, t], successor[words[:, t - 1]], words[:, t])
    return words + FIRST


def mask_tokens(tokens, gen, rate=0.15):
    """BERT masking: 80 % [MASK], 10 % random, 10 % unchanged."""
    labels = tokens.clone()
    chosen = torch.rand(tokens.shape, generator=gen) < rate
    labels[~chosen] = IGNORE
    kind = torch.rand(tokens.shape, generator=gen)
    inputs = tokens.clone()
    inputs[chosen & (kind < 0.8)] = MASK
    randoms = torch.randint(FIRST, VOCAB, tokens.shape, generator=gen)
    swap = chosen & (kind >= 0.9)
    inputs[swap] = randoms[swap]
    return inputs, labels


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = SelfAttention(dim, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class MaskedLM(nn.Module):
    def __init__(self, dim=128, heads=4, layers=3):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(SEQ_LEN, dim) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(layers))
        self.transform = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim))
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, inputs, labels):
        h = self.tok(inputs) + self.pos
        for layer in self.layers:
            h = layer(h)
        # the decoder shares its weights with the input embedding
        logits = F.linear(self.transform(h), self.tok.weight, self.bias)
        return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=IGNORE)


def lr_at(step, warmup=10, peak=1e-3, total=400):
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)

    corpus = make_corpus(2000, seed=0)
    gen = torch.Generator().manual_seed(1)
    model = MaskedLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)

    running = None
    for step in range(args.steps):
        rows = torch.randint(len(corpus), (args.batch_size,), generator=gen)
        inputs, labels = mask_tokens(corpus[rows], gen)
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step)
        loss = model(inputs, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
        running = value if running is None else 0.9 * running + 0.1 * value
    print(f"running mlm loss {running:.3f}")


if __name__ == "__main__":
    main()
