"""Implicit-feedback recommender trained with BPR (Dataset + DataLoader)."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def listening_log(users, tracks, rng):
    """(user, track) plays; listeners differ in taste and in how much they listen."""
    taste = rng.normal(size=(users, 8))
    style = rng.normal(size=(tracks, 8))
    log = []
    for user in range(users):
        amount = int(np.clip(rng.lognormal(6.2, 0.6), 50, tracks // 3))
        score = style @ taste[user] + rng.gumbel(size=tracks)
        log.extend((user, int(track)) for track in np.argsort(-score)[:amount])
    return log


class PlayTriples(Dataset):
    """One play together with tracks that the same user never played."""

    def __init__(self, log, tracks, negatives):
        self.log = log
        self.tracks = tracks
        self.negatives = negatives
        self.played = {}
        for user, track in log:
            self.played.setdefault(user, []).append(track)

    def __len__(self):
        return len(self.log)

    def __getitem__(self, index):
        user, track = self.log[index]
        played = self.played[user]
        negatives = []
        while len(negatives) < self.negatives:
            candidate = random.randrange(self.tracks)
            if candidate not in played:
                negatives.append(candidate)
        return user, track, torch.tensor(negatives)


class TwoTower(nn.Module):
    def __init__(self, users, tracks, dim=32, hidden=96):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.track = nn.Embedding(tracks, dim)
        self.user_tower = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.track_tower = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, user, track):
        u = self.user_tower(self.user(user))
        t = self.track_tower(self.track(track))
        return torch.einsum("bd,bkd->bk", u, t)


def bpr(scores):
    return -F.logsigmoid(scores[:, :1] - scores[:, 1:]).mean()


def main(args):
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    log = listening_log(args.users, args.tracks, np.random.default_rng(args.seed))
    data = PlayTriples(log, args.tracks, args.negatives)
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True)
    model = TwoTower(args.users, args.tracks)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)

    step, began = 0, time.perf_counter()
    while step < args.steps:
        for user, track, negatives in loader:
            scores = model(user, torch.cat([track[:, None], negatives], 1))
            loss = bpr(scores)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print(f"step {step} bpr {loss.item():.5f}")
            step += 1
            if step == 5:
                began = time.perf_counter()
            if step == args.steps:
                break
    print(f"mean step {1000 * (time.perf_counter() - began) / max(1, args.steps - 5):.2f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--tracks", type=int, default=4000)
    parser.add_argument("--negatives", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
