"""Serving process of a shop's "you may also like" strip.

Requests arrive in small groups; each holds the user's recent clicks. The
session encoder turns them into a query, the catalogue is scored by dot
product, and the best items that were not clicked before are returned.
"""
import argparse
import queue
import threading

import torch
from torch import nn

CATALOGUE = 60_000
DIM = 192
HISTORY = 40
GROUP = 8
STRIP = 12


class SessionEncoder(nn.Module):
    def __init__(self, items, dim):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.gru = nn.GRU(dim, dim, num_layers=2, batch_first=True)
        self.out = nn.Linear(dim, dim)

    def forward(self, clicks):
        _, h = self.gru(self.items(clicks))
        return self.out(h[-1])


class Recommender:
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.encoder = SessionEncoder(CATALOGUE, DIM).eval()
        # popularity prior, as estimated offline
        rank = torch.arange(1, CATALOGUE + 1, dtype=torch.float32)
        self.prior = (-0.8 * rank.log())[torch.randperm(CATALOGUE)]
        self.catalogue = self.encoder.items.weight.detach()

    @torch.inference_mode()
    def recommend(self, clicks, k=STRIP):
        query = self.encoder(clicks)
        scores = torch.addmm(self.prior, query, self.catalogue.t())
        scores.scatter_(1, clicks, float("-inf"))
        ranked, items = torch.topk(scores, k, dim=1)
        return items, ranked


class Request:
    def __init__(self, clicks):
        self.clicks = clicks
        self.done = threading.Event()
        self.items = None
        self.scores = None


class Server(threading.Thread):
    """Takes requests off a queue and answers them in groups."""

    def __init__(self, recommender):
        super().__init__(daemon=True)
        self.recommender = recommender
        self.inbox = queue.Queue()

    def submit(self, request):
        self.inbox.put(request)
        return request

    def run(self):
        while True:
            group = [self.inbox.get()]
            while len(group) < GROUP:
                group.append(self.inbox.get())
            if any(r is None for r in group):
                return
            clicks = torch.stack([r.clicks for r in group])
            items, scores = self.recommender.recommend(clicks)
            for row, request in enumerate(group):
                request.items = items[row].tolist()
                request.scores = scores[row].tolist()
                request.done.set()

    def stop(self):
        for _ in range(GROUP):
            self.inbox.put(None)
        self.join()


def traffic(groups, seed=4):
    """Click histories, drawn around a few interests per user."""
    gen = torch.Generator().manual_seed(seed)
    for _ in range(groups):
        centre = torch.randint(0, CATALOGUE, (GROUP, 1), generator=gen)
        spread = (torch.randn(GROUP, HISTORY, generator=gen) * 500).long()
        yield (centre + spread) % CATALOGUE


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    server = Server(Recommender())
    server.start()
    best, checksum, served = 0.0, 0, 0
    for clicks in traffic(args.steps):
        pending = [server.submit(Request(row)) for row in clicks]
        for request in pending:
            request.done.wait()
            best += request.scores[0]
            checksum = (checksum * 31 + sum(request.items)) % 1_000_003
            served += 1
    server.stop()
    print(f"requests {served}  mean top score {best / served:.4f}  items checksum {checksum}")


if __name__ == "__main__":
    main()
