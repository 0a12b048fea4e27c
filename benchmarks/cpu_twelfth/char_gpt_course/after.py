# Lecture notebook 7, exported: a character-level GPT from scratch.
# We build it bottom-up: one attention head, several heads, a block, the model.
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

# ---------------- hyperparameters ----------------
batch_size = 16
block_size = 32
n_embd = 96
n_head = 8
n_layer = 5
learning_rate = 1e-3
seed = 1337
# -------------------------------------------------


def write_corpus(n_chars=200_000):
    """A stand-in for tinyshakespeare: words drawn from a zipf-like vocabulary."""
    rng = np.random.default_rng(seed)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    vocab = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(500)]
    p = 1.0 / np.arange(1, len(vocab) + 1)
    words = rng.choice(vocab, n_chars // 5, p=p / p.sum())
    return " ".join(words)[:n_chars]


class MultiHeadAttention(nn.Module):
    """ multiple heads of self-attention, all computed together """

    def __init__(self, num_heads, head_size):
        super().__init__()
        self.num_heads = num_heads
        # per head: key, query, value, in the order the heads used to be built one by one
        w = [[nn.Linear(n_embd, head_size, bias=False).weight.detach() for _ in range(3)] for _ in range(num_heads)]
        self.qkv = nn.Linear(n_embd, 3 * num_heads * head_size, bias=False, device="meta")
        self.qkv.weight = nn.Parameter(torch.cat([h[part] for part in (1, 0, 2) for h in w]))
        self.proj = nn.Linear(head_size * num_heads, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)  # each (B,nh,T,hs)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(out.transpose(1, 2).reshape(B, T, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        return self.net(x)


class Block(nn.Module):
    """ communication followed by computation """

    def __init__(self):
        super().__init__()
        self.sa = MultiHeadAttention(n_head, n_embd // n_head)
        self.ffwd = FeedForward()
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, n_embd)
        self.position_embedding_table = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets):
        T = idx.shape[1]
        x = self.token_embedding_table(idx) + self.position_embedding_table(torch.arange(T))
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch(data, generator):
    ix = torch.randint(len(data) - block_size - 1, (batch_size,), generator=generator)
    chunk = data[ix[:, None] + torch.arange(block_size + 1)]
    return chunk[:, :-1], chunk[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(seed)
    text = write_corpus()
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text])

    model = GPT(len(chars))
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
    g = torch.Generator().manual_seed(seed)

    loss = torch.tensor(float("nan"))
    for _ in range(args.steps):
        xb, yb = get_batch(data, g)
        loss = model(xb, yb)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(f"step {args.steps}: train loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
