"""Search service: dense retrieval over passages, then cross-encoder reranking."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 3000


class Encoder(nn.Module):
    def __init__(self, dim, depth, max_len):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, dim), nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, batch_first=True, norm_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[:ids.shape[1]]
        return self.body(x).mean(1)


class PassageIndex:
    def __init__(self, vectors):
        self.vectors = F.normalize(vectors, dim=-1)

    def search(self, queries, k):
        scores = F.normalize(queries, dim=-1) @ self.vectors.t()
        order = scores.argsort(dim=-1, descending=True)[:, :k]
        return order, scores.gather(1, order)


class Reranker(nn.Module):
    def __init__(self, dim=64, max_len=48):
        super().__init__()
        self.encoder = Encoder(dim, 1, max_len)
        self.out = nn.Linear(dim, 1)

    def forward(self, pairs):
        return self.out(self.encoder(pairs)).squeeze(-1)


class SearchService:
    def __init__(self, passages, dim=64, fetch=24):
        self.passages, self.fetch = passages, fetch
        self.query_encoder = Encoder(dim, 2, 16).eval()
        self.reranker = Reranker().eval()
        doc_table = nn.EmbeddingBag(VOCAB, dim)
        self.index = PassageIndex(doc_table(passages).detach())

    @torch.inference_mode()
    def answer(self, queries, k=5):
        found, dense = self.index.search(self.query_encoder(queries), self.fetch)
        docs = self.passages[found]
        q = queries[:, None].expand(-1, self.fetch, -1)
        pairs = torch.cat([q, docs], -1).flatten(0, 1)
        score = self.reranker(pairs).view(found.shape) + dense
        best = score.topk(k, dim=-1)
        return found.gather(1, best.indices), best.values


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--passages", type=int, default=25_000)
    ap.add_argument("--batch-size", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(29)
    gen = torch.Generator().manual_seed(15)

    passages = torch.randint(0, VOCAB, (args.passages, 32), generator=gen)
    service = SearchService(passages)
    times, checksum, top = [], 0, 0.0
    for step in range(args.steps):
        origin = torch.randint(0, args.passages, (args.batch_size,), generator=gen)
        queries = passages[origin, :12]
        t0 = time.perf_counter()
        ids, scores = service.answer(queries)
        times.append(time.perf_counter() - t0)
        checksum += int(ids.sum())
        top += scores[:, 0].mean().item()
    print(f"id checksum {checksum} mean top score {top / args.steps:.5f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
