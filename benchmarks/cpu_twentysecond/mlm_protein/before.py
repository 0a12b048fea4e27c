"""Masked-token pretraining of a small encoder on synthetic k-mer sequences of proteins."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(21)

VOCAB = 8000            # 3-mers over the amino-acid alphabet
MASK_ID = 0
LENGTH = 96
BATCH = 8
WIDTH = 160
HEADS = 4
DEPTH = 2
MASK_RATE = 0.15
STEPS = 80
WARMUP = 4


class KmerStream:
    """Sequences from a sparse Markov chain, so that context predicts the masked k-mer."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.follow = torch.randint(1, VOCAB, (VOCAB, 3), generator=self.g)

    def batch(self):
        ids = torch.empty(BATCH, LENGTH, dtype=torch.long)
        current = torch.randint(1, VOCAB, (BATCH,), generator=self.g) % 200 + 1
        pick = torch.randint(0, 3, (BATCH, LENGTH), generator=self.g)
        for t in range(LENGTH):
            ids[:, t] = current
            current = self.follow[current, pick[:, t]] % 200 + 1
        return ids

    def mask(self, ids):
        chosen = torch.rand(ids.shape, generator=self.g) < MASK_RATE
        noise = torch.rand(ids.shape, generator=self.g)
        inputs = ids.clone()
        inputs[chosen & (noise < 0.9)] = MASK_ID
        targets = torch.where(chosen, ids, torch.full_like(ids, -100))
        return inputs, targets


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, h):
        b, t, _ = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        h = h + self.proj(a.transpose(1, 2).reshape(b, t, WIDTH))
        return h + self.ff(self.norm2(h))


class ProteinEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.transform = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
        self.decoder = nn.Linear(WIDTH, VOCAB)
        nn.init.normal_(self.token.weight, std=0.02)

    def forward(self, ids, targets):
        h = self.token(ids) + self.place
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        logits = self.decoder(self.transform(h))
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1), ignore_index=-100)


def main():
    stream = KmerStream(4)
    model = ProteinEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 20))
    times, history = [], []
    for step in range(STEPS):
        start = time.perf_counter()
        inputs, targets = stream.mask(stream.batch())
        loss = model(inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        times.append(time.perf_counter() - start)
        history.append(loss.item())
        if step % 20 == 0:
            print(f"step {step:3d}  loss {history[-1]:.4f}")
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print(f"final loss {sum(history[-5:]) / 5:.5f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
