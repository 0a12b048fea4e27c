"""Full-catalogue evaluation of a sequential recommender: hit rate, NDCG and MRR of the next item."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(41)

ITEMS = 12000
USERS = 12800
LENGTH = 40
WIDTH = 64
HEADS = 2
DEPTH = 2
BATCH = 64
CUT = 10
WARMUP = 4


class Log:
    """Interaction log: users wander within item groups of similar ids."""

    def __init__(self):
        g = torch.Generator().manual_seed(8)
        home = torch.randint(0, ITEMS, (USERS, 1), generator=g)
        wander = (torch.randn(USERS, LENGTH + 1, generator=g) * 120).long()
        items = (home + wander) % ITEMS
        self.history = items[:, :-1]
        self.target = items[:, -1]

    def batches(self):
        for lo in range(0, USERS, BATCH):
            yield self.history[lo:lo + BATCH], self.target[lo:lo + BATCH]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, h):
        b, t, _ = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(a.transpose(1, 2).reshape(b, t, WIDTH))
        return h + self.ff(self.norm2(h))


class SeqRec(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(ITEMS, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        # smooth item space in place of a trained one
        angle = torch.arange(ITEMS)[:, None] / ITEMS * 2 * math.pi * torch.arange(1, WIDTH // 2 + 1)
        with torch.no_grad():
            self.item.weight.copy_(torch.cat([angle.sin(), angle.cos()], 1))
            self.place.weight.mul_(0.05)
            for layer in self.layers:
                layer.out.weight.mul_(0.2)
                layer.ff[2].weight.mul_(0.2)

    def forward(self, history):
        h = self.item(history) + self.place.weight
        for layer in self.layers:
            h = layer(h)
        return self.norm(h).mean(1)

    def score(self, user):
        return user @ self.item.weight.t()


class RankingMeter:
    def __init__(self):
        self.count, self.hits, self.gain, self.reciprocal = 0, 0.0, 0.0, 0.0

    def add(self, rank):
        """rank: 0-based place of the target in the ranked catalogue."""
        inside = rank < CUT
        self.count += rank.numel()
        self.hits += inside.sum().item()
        self.gain += (inside / torch.log2(rank + 2.0)).sum().item()
        self.reciprocal += (1.0 / (rank + 1.0)).sum().item()

    def report(self):
        return self.hits / self.count, self.gain / self.count, self.reciprocal / self.count


def target_rank(scores, target):
    return (scores > scores.gather(1, target.unsqueeze(1))).sum(1)


@torch.inference_mode()
def evaluate(model, log):
    model.eval()
    meter = RankingMeter()
    times, loss = [], 0.0
    for index, (history, target) in enumerate(log.batches()):
        start = time.perf_counter()
        scores = model.score(model(history))
        loss += F.cross_entropy(scores, target, reduction="sum").item()
        keep = scores.gather(1, target.unsqueeze(1))
        scores.scatter_(1, history, float("-inf"))      # seen items are not recommended
        scores.scatter_(1, target.unsqueeze(1), keep)
        meter.add(target_rank(scores, target))
        times.append(time.perf_counter() - start)
        if index % 50 == 0:
            print("batch %3d  hit %.4f  ndcg %.4f  mrr %.4f" % (index, *meter.report()))
    return meter.report(), loss / USERS, times


def main():
    log = Log()
    model = SeqRec()
    (hit, ndcg, mrr), loss, times = evaluate(model, log)
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print(f"final loss {loss:.5f}  hit@{CUT} {hit:.5f}  ndcg@{CUT} {ndcg:.5f}  mrr {mrr:.5f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
