"""A small vision transformer with sparse mixture-of-experts layers, for land-use classes of satellite patches."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 10


class Satellite:
    """Patches of 64x64 pixels in four bands whose class is a texture's direction and a band ratio."""

    def __init__(self, count, seed=0):
        gen = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(CLASSES, (count,), generator=gen)
        axis = torch.linspace(0, 12, 64)
        angle = self.labels.float() * (torch.pi / CLASSES)
        wave = torch.sin(angle.cos()[:, None, None] * axis[:, None] + angle.sin()[:, None, None] * axis)
        bands = torch.rand(count, 4, 1, 1, generator=gen)
        self.images = wave.unsqueeze(1) * bands + 0.5 * torch.randn(count, 4, 64, 64, generator=gen)
        self.gen = gen

    def batches(self, size):
        while True:
            for part in torch.randperm(len(self.labels), generator=self.gen).split(size)[:-1]:
                yield self.images[part], self.labels[part]


class Expert(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class SparseMoE(nn.Module):
    """Each token goes to its best two of the experts; returns the load-balancing loss as well."""

    def __init__(self, dim, hidden, experts=8, k=2):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.k = k

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probs = self.router(x).softmax(dim=-1)
        top, chosen = probs.topk(self.k, dim=-1)
        top = top / top.sum(dim=-1, keepdim=True)
        gates = torch.zeros_like(probs).scatter(1, chosen, top)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            tokens = (chosen == e).any(dim=1).nonzero().squeeze(1)
            y = y.index_add(0, tokens, gates[tokens, e].unsqueeze(1) * expert(x[tokens]))
        load = (gates.detach() > 0).float().mean(dim=0)
        return y.view(shape), len(self.experts) * (load * probs.mean(dim=0)).sum()


class Block(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.moe = SparseMoE(dim, 2 * dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        y, balance = self.moe(self.norm2(x))
        return x + y, balance


class PatchClassifier(nn.Module):
    def __init__(self, dim=128, depth=3):
        super().__init__()
        self.embed = nn.Conv2d(4, dim, kernel_size=8, stride=8)
        self.position = nn.Parameter(0.02 * torch.randn(1, 64, dim))
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, CLASSES)

    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2) + self.position
        balance = 0.0
        for block in self.blocks:
            x, b = block(x)
            balance = balance + b
        return self.head(self.norm(x).mean(dim=1)), balance


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()

    torch.manual_seed(0)
    stream = Satellite(640).batches(args.batch_size)
    model = PatchClassifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    total = torch.zeros(())
    for _ in range(args.steps):
        images, labels = next(stream)
        logits, balance = model(images)
        loss = F.cross_entropy(logits, labels) + 0.01 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"mean loss {total.item() / args.steps:.4f}")


if __name__ == "__main__":
    main()
