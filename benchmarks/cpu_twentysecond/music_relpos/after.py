"""Next-event model for symbolic music: a causal transformer with learned relative positions per head."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(101)

EVENTS = 128
LENGTH = 128
BATCH = 3
WIDTH = 128
HEADS = 4
DEPTH = 3
STEPS = 110
WARMUP = 4


class Melodies:
    """Motifs that return after a fixed number of events, with a few wrong notes."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self):
        period = torch.randint(6, 17, (BATCH, 1), generator=self.g)
        motif = torch.randint(0, EVENTS, (BATCH, 16), generator=self.g)
        place = torch.arange(LENGTH + 1).expand(BATCH, -1) % period
        song = motif.gather(1, place.clamp(max=15))
        wrong = torch.rand(song.shape, generator=self.g) < 0.05
        noise = torch.randint(0, EVENTS, song.shape, generator=self.g)
        song = torch.where(wrong, noise, song)
        return song[:, :-1], song[:, 1:]


class RelativeAttention(nn.Module):
    """logit_ij = q_i . (k_j + r_{i-j}), one table r for each head."""

    def __init__(self):
        super().__init__()
        self.dim = WIDTH // HEADS
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.relative = nn.Parameter(torch.randn(HEADS, 2 * LENGTH - 1, self.dim) * 0.02)
        place = torch.arange(LENGTH)
        self.register_buffer("distance", place[:, None] - place[None, :] + LENGTH - 1)
        self.register_buffer("future", place[None, :] > place[:, None])

    def forward(self, h):
        b, t, _ = h.shape
        q, k, v = self.qkv(h).view(b, t, 3, HEADS, self.dim).permute(2, 0, 3, 1, 4)
        q = q * self.dim ** -0.5
        content = q @ k.transpose(-1, -2)
        products = (q @ self.relative.flip(1).transpose(-1, -2)).flatten(2)[..., t - 1:t - 1 + t * (2 * t - 2)]
        position = products.view(b, HEADS, t, 2 * t - 2)[..., :t]     # row i starts at distance i
        logits = (content + position).masked_fill(self.future, float("-inf"))
        return self.out((logits.softmax(-1) @ v).transpose(1, 2).reshape(b, t, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = RelativeAttention()
        self.ff = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, h):
        h = h + self.attend(self.norm1(h))
        return h + self.ff(self.norm2(h))


class MusicModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.event = nn.Embedding(EVENTS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, EVENTS)
        nn.init.normal_(self.event.weight, std=0.1)

    def forward(self, events):
        h = self.event(events)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def main():
    data = Melodies(3)
    model = MusicModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3, weight_decay=0.01)
    times, losses = [], []
    for step in range(STEPS):
        start = time.perf_counter()
        events, following = data.batch()
        logits = model(events)
        loss = F.cross_entropy(logits.view(-1, EVENTS), following.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
        if step % 20 == 0:
            print(f"step {step:3d}  loss {losses[-1]:.4f}")
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print(f"final loss {sum(losses[-10:]) / 10:.5f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
