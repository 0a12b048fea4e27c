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


class Head(nn.Module):
    """ one head of self-attention """

    def __init__(self, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)    # (B,T,hs)
        q = self.query(x)  # (B,T,hs)
        # compute attention scores ("affinities")
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5  # (B,T,hs) @ (B,hs,T) -> (B,T,T)
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        # weighted aggregation of the values
        v = self.value(x)  # (B,T,hs)
        return wei @ v     # (B,T,hs)


class MultiHeadAttention(nn.Module):
    """ multiple heads of self-attention """

    def __init__(self, num_heads, head_size):
        super().__init__()
        self.heads = nn.ModuleList([Head(head_size) for _ in range(num_heads)])
        self.proj = nn.Linear(head_size * num_heads, n_embd)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(out)


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
