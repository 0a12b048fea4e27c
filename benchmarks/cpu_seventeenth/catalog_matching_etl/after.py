"""Nightly job: match free-text supplier product lines to the master catalogue.

    read JSONL -> clean -> hash character n-grams -> embed -> nearest catalogue rows
    -> business rules -> write JSONL
"""
import argparse
import json
import os
import random
import re
import tempfile
import time
import zlib
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F

BRANDS = ["acme", "bolton", "cirrus", "delmar", "everest", "fjord", "globex", "hanso", "initech", "jotun"]
NOUNS = ["screw", "washer", "bracket", "hinge", "valve", "hose", "clamp", "bearing", "gasket", "sleeve", "drill",
         "blade", "filter", "sensor", "relay", "switch", "cable", "socket"]
ADJ = ["steel", "brass", "zinc", "nylon", "heavy duty", "stainless", "galvanised", "flexible", "threaded", "sealed"]
UNIT = re.compile(r"(\d+)\s*(mm|cm|inch|in|kg|g|v|a)\b")
JUNK = re.compile(r"[^a-z0-9 ]+")


def product_name(rng):
    return f"{rng.choice(BRANDS)} {rng.choice(ADJ)} {rng.choice(NOUNS)} {rng.randint(2, 400)} mm {rng.randint(100, 9999)}"


def noisy(name, rng):
    name = name.upper() if rng.random() < 0.3 else name.title()
    if rng.random() < 0.5:
        name = name.replace(" mm", "MM").replace(" Mm", "mm")
    k = rng.randrange(len(name))
    if rng.random() < 0.4:
        name = name[:k] + name[k + 1:]
    return name + rng.choice(["", " (box of 10)", " - NEW", "  *promo*"])


def write_inputs(path, n, seed):
    rng = random.Random(seed)
    with open(path, "w") as f:
        for i in range(n):
            rec = {"id": f"L{i:06d}", "supplier": rng.choice(["S1", "S2", "S3"]),
                   "text": noisy(product_name(rng), rng), "qty": rng.randint(0, 50)}
            f.write(json.dumps(rec) + "\n")


def clean(text):
    text = UNIT.sub(r"\1\2", text.lower())
    return JUNK.sub(" ", text).strip()


def ngrams(text, n_buckets, sizes=(3,)):
    padded = f"^{text}$".encode()
    ids = [zlib.crc32(padded[i:i + n]) % n_buckets for n in sizes for i in range(len(padded) - n + 1)]
    return ids or [0]


class NgramEncoder(nn.Module):
    def __init__(self, n_buckets, dim):
        super().__init__()
        self.bag = nn.EmbeddingBag(n_buckets, dim, mode="mean")
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, ids, offsets):
        h = self.bag(ids, offsets)
        return h + self.net(h)


class Catalogue:
    """Embeddings exported in half precision by the indexing job."""

    def __init__(self, path):
        blob = torch.load(path)
        self.vectors = F.normalize(blob["vectors"].float(), dim=-1)
        self.active = blob["active"]
        self.price = blob["price"]

    def search(self, queries, k):
        q = F.normalize(queries, dim=-1)
        scores = q @ self.vectors.t()
        scores.masked_fill_(~self.active, -1.0)
        return scores.topk(k, dim=-1)


def build_catalogue(path, n, dim, seed):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(200, dim, generator=g)
    vec = centers[torch.randint(200, (n,), generator=g)] + 0.7 * torch.randn(n, dim, generator=g)
    torch.save({"vectors": vec.half(), "active": torch.rand(n, generator=g) < 0.95,
                "price": (torch.rand(n, generator=g) * 100).round(decimals=2)}, path)


class MatchingPipeline:
    def __init__(self, encoder, catalogue, n_buckets, k=5, accept=0.35, margin=0.002):
        self.encoder, self.catalogue = encoder.eval(), catalogue
        self.n_buckets, self.k = n_buckets, k
        self.accept, self.margin = accept, margin
        self.counts = Counter()

    def read(self, path, batch_size):
        batch = []
        with open(path) as f:
            for line in f:
                rec = json.loads(line)
                if rec["qty"] == 0:
                    self.counts["skipped"] += 1
                    continue
                batch.append(rec)
                if len(batch) == batch_size:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def preprocess(self, batch):
        ids, offsets = [], []
        for rec in batch:
            rec["clean"] = clean(rec["text"])
            offsets.append(len(ids))
            ids.extend(ngrams(rec["clean"], self.n_buckets))
        return torch.tensor(ids), torch.tensor(offsets)

    def postprocess(self, batch, scores, index):
        prices = self.catalogue.price[index].tolist()
        for rec, s, idx, price in zip(batch, scores.tolist(), index.tolist(), prices):
            if s[0] < self.accept:
                status = "no_match"
            elif s[0] - s[1] < self.margin:
                status = "review"
            else:
                status = "matched"
            self.counts[status] += 1
            yield {"id": rec["id"], "status": status, "sku": idx[0] if status == "matched" else None,
                   "score": round(s[0], 4), "value": round(price[0] * rec["qty"], 2), "candidates": idx}

    @torch.inference_mode()
    def process(self, batch):
        ids, offsets = self.preprocess(batch)
        scores, index = self.catalogue.search(self.encoder(ids, offsets), self.k)
        return list(self.postprocess(batch, scores, index))

    def run(self, src, dst, batch_size, report_every):
        n, total, start = 0, 0.0, time.time()
        with open(dst, "w") as out:
            for step, batch in enumerate(self.read(src, batch_size), 1):
                rows = self.process(batch)
                out.writelines(json.dumps(r) + "\n" for r in rows)
                n += len(rows)
                total += sum(r["score"] for r in rows)
                if step % report_every == 0:
                    print(f"{n} lines, {n / (time.time() - start):.0f} lines/s, {dict(self.counts)}")
        return n, total / max(n, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lines", type=int, default=2000)
    ap.add_argument("--catalogue-size", type=int, default=160_000)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--buckets", type=int, default=20_000)
    ap.add_argument("--batch-size", type=int, default=48)
    ap.add_argument("--report-every", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        src, dst, cat = (os.path.join(tmp, n) for n in ("lines.jsonl", "matches.jsonl", "catalogue.pt"))
        write_inputs(src, args.lines, seed=1)
        build_catalogue(cat, args.catalogue_size, args.dim, seed=2)
        pipe = MatchingPipeline(NgramEncoder(args.buckets, args.dim), Catalogue(cat), args.buckets)
        n, mean = pipe.run(src, dst, args.batch_size, args.report_every)
        print(f"{n} lines, mean top score {mean:.5f}, {dict(pipe.counts)}, {os.path.getsize(dst)} bytes written")


if __name__ == "__main__":
    main()
