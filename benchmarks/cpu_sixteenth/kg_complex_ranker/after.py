"""Filtered link-prediction evaluation (MRR, Hits@k) of ComplEx embeddings of a knowledge graph."""
import argparse
import logging
import time
from collections import defaultdict

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("kge")


def make_triples(n_ent, n_rel, n, seed):
    """Zipf-like heads and tails, as in FB15k."""
    rng = np.random.default_rng(seed)
    perm = rng.permutation(n_ent)
    head = perm[np.minimum(rng.zipf(1.35, n) - 1, n_ent - 1)]
    tail = perm[(rng.random(n) ** 2 * n_ent).astype(int)]
    rel = rng.integers(0, n_rel, n)
    return np.unique(np.stack([head, rel, tail], 1), axis=0)


class ComplEx(torch.nn.Module):
    def __init__(self, n_ent, n_rel, dim):
        super().__init__()
        self.ent_re, self.ent_im = torch.nn.Embedding(n_ent, dim), torch.nn.Embedding(n_ent, dim)
        self.rel_re, self.rel_im = torch.nn.Embedding(n_rel, dim), torch.nn.Embedding(n_rel, dim)
        for emb in (self.ent_re, self.ent_im, self.rel_re, self.rel_im):
            torch.nn.init.normal_(emb.weight, std=0.3)

    def score_tails(self, h, r):
        hr, hi, rr, ri = self.ent_re(h), self.ent_im(h), self.rel_re(r), self.rel_im(r)
        return (hr * rr - hi * ri) @ self.ent_re.weight.T + (hr * ri + hi * rr) @ self.ent_im.weight.T

    def score_heads(self, t, r):
        tr, ti, rr, ri = self.ent_re(t), self.ent_im(t), self.rel_re(r), self.rel_im(r)
        return (tr * rr + ti * ri) @ self.ent_re.weight.T + (ti * rr - tr * ri) @ self.ent_im.weight.T


class TestTriples(Dataset):
    def __init__(self, test, known, mode):
        self.test, self.mode = test, mode
        self.true = defaultdict(list)
        for h, r, t in known.tolist():
            if mode == "tail":
                self.true[(h, r)].append(t)
            else:
                self.true[(t, r)].append(h)

    def __len__(self):
        return len(self.test)

    def __getitem__(self, i):
        h, r, t = self.test[i].tolist()
        source, answer = (h, t) if self.mode == "tail" else (t, h)
        others = [e for e in self.true[(source, r)] if e != answer]
        return source, r, answer, others


def collate(items):
    source, rel, answer, others = zip(*items)
    rows = [i for i, o in enumerate(others) for _ in o]
    cols = [e for o in others for e in o]
    as_t = lambda v: torch.tensor(v, dtype=torch.long)
    return as_t(source), as_t(rel), as_t(answer), (as_t(rows), as_t(cols))


class RankMetrics:
    def __init__(self, hits=(1, 3, 10)):
        self.hits = hits
        self.sums = defaultdict(float)
        self.count = 0

    def update(self, ranks):
        ranks = ranks.double()
        self.count += ranks.numel()
        self.sums["MRR"] += (1 / ranks).sum().item()
        self.sums["MR"] += ranks.sum().item()
        for k in self.hits:
            self.sums[f"Hits@{k}"] += (ranks <= k).sum().item()

    def result(self):
        return {k: v / self.count for k, v in self.sums.items()}


def filtered_ranks(scores, answer, filter_index):
    """Rank of the answer among all entities; other known answers do not count."""
    scores[filter_index] = -float("inf")
    target = scores.gather(1, answer[:, None])
    ranks = (scores > target).sum(1) + 1
    return ranks


@torch.no_grad()
def evaluate(model, loaders, log_every):
    model.eval()
    overall = RankMetrics()
    done, tick = 0, time.perf_counter()
    for mode, loader in loaders.items():
        metrics = RankMetrics()
        for source, rel, answer, known in loader:
            scorer = model.score_tails if mode == "tail" else model.score_heads
            scores = scorer(source, rel)
            ranks = filtered_ranks(scores, answer, known)
            metrics.update(ranks)
            overall.update(ranks)
            done += 1
            if done % log_every == 0:
                log.info("batch %d MRR so far %.4f, %.0f ms/batch", done, overall.result()["MRR"],
                         (time.perf_counter() - tick) / done * 1e3)
        log.info("%s: %s", mode, " ".join(f"{k} {v:.4f}" for k, v in metrics.result().items()))
    return overall.result()


def plant_signal(model, test, strength):
    """Stand-in for training: nudge the tails towards what their head and relation ask for."""
    with torch.no_grad():
        h, r, t = (torch.from_numpy(test[:, i]) for i in range(3))
        hr, hi = model.ent_re(h), model.ent_im(h)
        rr, ri = model.rel_re(r), model.rel_im(r)
        model.ent_re.weight.index_add_(0, t, strength * (hr * rr - hi * ri))
        model.ent_im.weight.index_add_(0, t, strength * (hr * ri + hi * rr))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--entities", type=int, default=14541)
    ap.add_argument("--relations", type=int, default=237)
    ap.add_argument("--dim", type=int, default=100)
    ap.add_argument("--triples", type=int, default=150_000)
    ap.add_argument("--test", type=int, default=1280)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--checkpoint", default=None)
    ap.add_argument("--log-every", type=int, default=10)
    args = ap.parse_args()
    torch.manual_seed(0)

    triples = make_triples(args.entities, args.relations, args.triples, 0)
    test = triples[np.random.default_rng(1).permutation(len(triples))[: args.test]]
    model = ComplEx(args.entities, args.relations, args.dim)
    if args.checkpoint:
        model.load_state_dict(torch.load(args.checkpoint, weights_only=True))
    else:
        plant_signal(model, test, 0.5)
    log.info("%d known triples, %d test triples", len(triples), len(test))
    loaders = {mode: DataLoader(TestTriples(test, triples, mode), args.batch_size, collate_fn=collate)
               for mode in ("tail", "head")}
    result = evaluate(model, loaders, args.log_every)
    print("filtered: " + ", ".join(f"{k} = {v:.4f}" for k, v in result.items()))


if __name__ == "__main__":
    main()
