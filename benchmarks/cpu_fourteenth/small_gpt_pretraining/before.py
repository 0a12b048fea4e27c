"""Pre-train a small GPT on a synthetic Markov text, with label smoothing."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 12000
BLOCK = 32
BATCH = 8
WIDTH = 48
HEADS = 4
LAYERS = 2


def make_corpus(length=200_000, seed=1):
    """Zipf-distributed tokens in which every second token depends on the last one."""
    gen = torch.Generator().manual_seed(seed)
    weights = 1.0 / torch.arange(1, VOCAB + 1, dtype=torch.float)
    tokens = torch.multinomial(weights, length, replacement=True, generator=gen)
    tokens[1::2] = (tokens[0::2] * 7 + 13) % VOCAB
    return tokens


def get_batch(corpus, gen):
    starts = torch.randint(0, corpus.numel() - BLOCK - 1, (BATCH,), generator=gen)
    offsets = starts[:, None] + torch.arange(BLOCK + 1)
    chunk = corpus[offsets]
    return chunk[:, :-1], chunk[:, 1:]


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attn = CausalSelfAttention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, WIDTH)
        self.pos = nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.tok.weight
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class SmoothedCrossEntropy(nn.Module):
    """Cross entropy against (1 - eps) * target + eps * uniform."""

    def __init__(self, eps=0.1):
        super().__init__()
        self.eps = eps

    def forward(self, logits, targets):
        logits = logits.reshape(-1, logits.size(-1))
        targets = targets.reshape(-1)
        num_classes = logits.size(-1)
        one_hot = F.one_hot(targets, num_classes).float()
        smooth = one_hot * (1.0 - self.eps) + self.eps / num_classes
        log_probs = F.log_softmax(logits, dim=-1)
        return -(smooth * log_probs).sum(dim=-1).mean()


def lr_at(step, total, base=1e-3, warmup=10):
    if step < warmup:
        return base * (step + 1) / warmup
    return 0.1 * base + 0.45 * base * (1 + math.cos(math.pi * step / max(total, 1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    corpus = make_corpus()
    gen = torch.Generator().manual_seed(2)
    model = GPT()
    criterion = SmoothedCrossEntropy(eps=0.1)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    for step in range(args.steps):
        for group in opt.param_groups:
            group["lr"] = 30 * lr_at(step, args.steps)
        x, y = get_batch(corpus, gen)
        loss = criterion(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()

    print(f"steps {args.steps} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
