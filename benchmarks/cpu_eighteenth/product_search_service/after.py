"""Semantic product search: HTTP-less core of the service with a load generator.

A worker thread drains the request queue in small batches, embeds the query
texts, scores the catalogue, applies the per-request filters and answers futures.
"""
import argparse
import hashlib
import logging
import queue
import random
import re
import statistics
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import List, Optional

import torch
from torch import nn
import torch.nn.functional as F

log = logging.getLogger("search")

CATEGORIES = ["audio", "kitchen", "garden", "toys", "office", "sports"]
WORDS = ("wireless steel folding compact garden kitchen noise cancelling pro mini large ceramic wooden outdoor kids "
         "ergonomic chair lamp headphones knife kettle hose puzzle desk bike tent mat stand cover case cable").split()


@dataclass
class SearchRequest:
    text: str
    top_k: int = 10
    category: Optional[str] = None
    received: float = field(default_factory=time.perf_counter)


@dataclass
class Hit:
    product_id: int
    score: float


class HashingVectorizer:
    """Word and trigram hashing into a fixed number of embedding buckets."""

    def __init__(self, buckets):
        self.buckets = buckets

    def __call__(self, text):
        grams = []
        for w in re.findall(r"\w+", text.lower()):
            grams.append(w)
            w = f"<{w}>"
            grams.extend(w[i:i + 3] for i in range(len(w) - 2))
        return [int.from_bytes(hashlib.blake2s(g.encode(), digest_size=4).digest(), "little") % self.buckets for g in grams]


class QueryTower(nn.Module):
    def __init__(self, buckets, dim, hidden=512):
        super().__init__()
        self.bag = nn.EmbeddingBag(buckets, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.LayerNorm(hidden),
                                 nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden),
                                 nn.Linear(hidden, dim))

    def forward(self, flat_ids, offsets):
        h = self.bag(flat_ids, offsets)
        return h + self.mlp(h)


class CatalogueIndex:
    """Exact search over the product vectors that the nightly job wrote."""

    def __init__(self, vectors, categories):
        self.vectors = F.normalize(vectors, dim=-1)
        self.categories = categories
        self.masks = {c: categories == i for i, c in enumerate(CATEGORIES)}

    def __len__(self):
        return len(self.vectors)

    def search(self, queries: torch.Tensor, requests: List[SearchRequest]) -> List[List[Hit]]:
        q = F.normalize(queries, dim=-1)
        sims = q @ self.vectors.T
        answers = []
        for row, req in zip(sims, requests):
            if req.category is not None:
                row = row.masked_fill(~self.masks[req.category], -1.0)
            score, idx = row.topk(req.top_k)
            answers.append([Hit(i, s) for i, s in zip(idx.tolist(), score.tolist())])
        return answers


class SearchService:
    def __init__(self, tower, index, vectorizer, max_batch, max_wait_ms):
        self.tower, self.index, self.vectorizer = tower.eval(), index, vectorizer
        self.max_batch, self.max_wait = max_batch, max_wait_ms / 1e3
        self.inbox = queue.Queue()
        self.batch_sizes, self.busy = [], 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="search-worker", daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def submit(self, request):
        fut = Future()
        self.inbox.put((request, fut))
        return fut

    def _collect(self):
        try:
            batch = [self.inbox.get(timeout=0.05)]
        except queue.Empty:
            return []
        deadline = time.perf_counter() + self.max_wait
        while len(batch) < self.max_batch:
            left = deadline - time.perf_counter()
            if left <= 0:
                break
            try:
                batch.append(self.inbox.get(timeout=left))
            except queue.Empty:
                break
        return batch

    @torch.inference_mode()
    def handle(self, requests):
        ids = [self.vectorizer(r.text) for r in requests]
        offsets = torch.tensor([0] + [len(i) for i in ids[:-1]]).cumsum(0)
        flat = torch.tensor([b for i in ids for b in i])
        return self.index.search(self.tower(flat, offsets), requests)

    def _run(self):
        while not self._stop.is_set():
            batch = self._collect()
            if not batch:
                continue
            begin = time.perf_counter()
            try:
                for (_, fut), hits in zip(batch, self.handle([r for r, _ in batch])):
                    fut.set_result(hits)
            except Exception as exc:
                log.exception("batch failed")
                for _, fut in batch:
                    if not fut.done():
                        fut.set_exception(exc)
            self.batch_sizes.append(len(batch))
            self.busy += time.perf_counter() - begin


def make_requests(n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        text = " ".join(rng.choices(WORDS, k=rng.randint(2, 6)))
        yield SearchRequest(text, top_k=rng.choice([10, 10, 20]), category=rng.choice(CATEGORIES) if rng.random() < 0.3 else None)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--products", type=int, default=250_000)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--buckets", type=int, default=50_000)
    ap.add_argument("--requests", type=int, default=480)
    ap.add_argument("--clients", type=int, default=8)
    ap.add_argument("--max-batch", type=int, default=8)
    ap.add_argument("--max-wait-ms", type=float, default=3.0)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")

    torch.manual_seed(args.seed)
    vectors = torch.randn(args.products, args.dim) * torch.rand(args.products, 1).add_(0.5)
    categories = torch.randint(len(CATEGORIES), (args.products,))
    service = SearchService(QueryTower(args.buckets, args.dim), CatalogueIndex(vectors, categories),
                            HashingVectorizer(args.buckets), args.max_batch, args.max_wait_ms)
    service.start()
    log.info("index of %d products ready", len(service.index))

    latencies, checksum, lock = [], [0.0], threading.Lock()

    def client(requests):
        for req in requests:
            req.received = time.perf_counter()
            hits = service.submit(req).result()
            with lock:
                latencies.append(time.perf_counter() - req.received)
                checksum[0] += hits[0].score
                if len(latencies) % 120 == 0:
                    log.info("%d answered, p50 %.0f ms, p95 %.0f ms", len(latencies), 1e3 * statistics.median(latencies[-120:]),
                             1e3 * statistics.quantiles(latencies[-120:], n=20)[-1])

    workload = list(make_requests(args.requests, args.seed))
    threads = [threading.Thread(target=client, args=(workload[c::args.clients],)) for c in range(args.clients)]
    begin = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = time.perf_counter() - begin
    service.stop()
    log.info("%.1f requests/s, %d batches of %.1f on average, %.0f ms per batch, mean top score %.6f", args.requests / took,
             len(service.batch_sizes), statistics.mean(service.batch_sizes), 1e3 * service.busy / len(service.batch_sizes),
             checksum[0] / args.requests)


if __name__ == "__main__":
    main()
