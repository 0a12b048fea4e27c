"""A character model trained with Muon for its matrices and AdamW for the rest."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn

LETTERS = "abcdefghijklmnopqrstuvwxyz .,\n"


def corpus(words, seed=0):
    """Babble of a made-up vocabulary with frequent and rare words."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices(LETTERS[:26], k=rng.randint(2, 8))) for _ in range(500)]
    text = []
    for _ in range(words):
        text.append(vocabulary[int(500 * rng.random() ** 3)] + rng.choices(" .,\n", weights=(12, 1, 1, 1))[0])
    return torch.tensor([LETTERS.index(c) for c in "".join(text)])


def zeropower(g, steps=5):
    """The orthogonal factor of a matrix by a quintic Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g / (g.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised, for the matrices between the layers."""

    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = zeropower(p.grad.lerp(state["momentum"], group["momentum"]))
                p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(self.norm2(x))).square())


class CharModel(nn.Module):
    def __init__(self, context, dim=128, heads=4, depth=2):
        super().__init__()
        self.token, self.place = nn.Embedding(len(LETTERS), dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, len(LETTERS))

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def make_optimizers(model):
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    ids = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in ids]
    return Muon(matrices, lr=0.01), torch.optim.AdamW(others, lr=2e-3, foreach=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--context", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    text = corpus(20000)
    model = CharModel(args.context)
    optimizers = make_optimizers(model)
    window = torch.arange(args.context + 1)
    total = torch.zeros(())
    for _ in range(args.steps):
        begin = torch.randint(len(text) - args.context - 1, (args.batch_size, 1))
        tokens = text[begin + window]
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        total += loss.detach()
    print(f"mean loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()
