"""Podcast recommender: user vectors against episode vectors (BPR with content features).

Listening events are drawn from a latent taste model; popularity follows a power law.
"""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, EPISODES, CONTENT = 300_000, 80_000, 96


class Events:
    """Positive pairs with negatives drawn from the same popularity distribution."""

    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        taste = rng.integers(0, 32, USERS)
        self.topic = rng.integers(0, 32, EPISODES)
        by_topic = [np.flatnonzero(self.topic == k) for k in range(32)]
        user = rng.integers(0, USERS, count)
        draw = rng.random(count) ** 3
        episode = np.empty(count, np.int64)
        for k in range(32):
            rows = np.flatnonzero(taste[user] == k)
            episode[rows] = by_topic[k][(draw[rows] * len(by_topic[k])).astype(np.int64)]
        self.user, self.episode = torch.from_numpy(user), torch.from_numpy(episode)

    def batch(self, size, generator):
        rows = torch.randint(0, len(self.user), (size,), generator=generator)
        negatives = torch.randint(0, len(self.episode), (size,), generator=generator)
        return self.user[rows], self.episode[rows], self.episode[negatives]


class Matcher(nn.Module):
    def __init__(self, content, dim=32):
        super().__init__()
        self.user = nn.Embedding(USERS, dim)
        self.episode = nn.Embedding(EPISODES, dim)
        self.bias = nn.Embedding(EPISODES, 1)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.episode.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)
        self.register_buffer("content", content)
        self.tower = nn.Sequential(nn.Linear(CONTENT, 256), nn.ReLU(), nn.Linear(256, 128),
                                   nn.ReLU(), nn.Linear(128, dim))

    def episode_vector(self, episode):
        return self.episode(episode) + self.tower(self.content[episode])

    def forward(self, user, liked, other):
        vec = self.episode_vector(torch.cat([liked, other]))
        u = self.user(user)
        pos, neg = vec.chunk(2)
        gap = ((pos - neg) * u).sum(1) + (self.bias(liked) - self.bias(other)).squeeze(1)
        return gap


@torch.inference_mode()
def hit_rate(model, events, generator, users=400, candidates=100, k=10):
    user, liked, _ = events.batch(users, generator)
    others = events.episode[torch.randint(0, len(events.episode), (users, candidates - 1), generator=generator)]
    pool = torch.cat([liked[:, None], others], 1)
    vec = model.episode_vector(pool.flatten()).view(users, candidates, -1)
    score = torch.einsum("ud,ucd->uc", model.user(user), vec) + model.bias(pool).squeeze(-1)
    return (score[:, 1:] > score[:, :1]).sum(1).lt(k).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=4096)
    ap.add_argument("--lr", type=float, default=0.02)
    args = ap.parse_args()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(21)

    events = Events(1_000_000, seed=2)
    centres = np.random.default_rng(3).standard_normal((32, CONTENT)).astype(np.float32)
    noise = np.random.default_rng(4).standard_normal((EPISODES, CONTENT), dtype=np.float32)
    model = Matcher(torch.from_numpy(centres[events.topic] + noise))
    opt = torch.optim.Adagrad(model.parameters(), lr=args.lr, initial_accumulator_value=1e-8)

    times = []
    for step in range(1, args.steps + 1):
        t0 = time.perf_counter()
        user, liked, other = events.batch(args.batch, generator)
        loss = -F.logsigmoid(model(user, liked, other)).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step}  bpr {loss.item():.5f}")
    print(f"hit@10 {hit_rate(model, events, generator):.3f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
