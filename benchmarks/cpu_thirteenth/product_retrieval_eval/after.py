"""Evaluate a product-image encoder: recall@k and MRR@10 against a gallery."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

KS = (1, 5, 10)


def make_products(n_products=14_000, dim=96, seed=6):
    """Gallery embeddings of the catalogue, as an earlier job would have stored them."""
    g = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n_products, dim, generator=g), dim=1)


class QueryStream:
    """Shop photos: the product's embedding rendered to pixels, plus clutter."""

    def __init__(self, gallery, batch_size, seed=9):
        self.g = torch.Generator().manual_seed(seed)
        self.gallery, self.batch_size = gallery, batch_size
        self.render = torch.randn(gallery.shape[1], 3 * 16 * 16, generator=self.g) / 8

    def next_batch(self):
        ids = torch.randint(len(self.gallery), (self.batch_size,), generator=self.g)
        pixels = self.gallery[ids] @ self.render
        pixels = pixels + 3.2 * pixels.std() * torch.randn(pixels.shape, generator=self.g)
        return pixels.view(-1, 3, 16, 16), ids


class Encoder(nn.Module):
    """Linear un-rendering plus a convolutional residual branch."""

    def __init__(self, render, width=64):
        super().__init__()
        self.linear = nn.Linear(render.shape[1], render.shape[0], bias=False)
        self.linear.weight = nn.Parameter(torch.linalg.pinv(render).T.contiguous())
        self.convs = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(width, width * 2, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width * 2, width * 2, 3, 1, 1),
            nn.ReLU(),
        )
        self.project = nn.Linear(width * 2, render.shape[0])
        nn.init.normal_(self.project.weight, std=1e-3)

    def forward(self, images):
        residual = self.project(self.convs(images).mean(dim=(2, 3)))
        return F.normalize(self.linear(images.flatten(1)) + residual, dim=1)


class RetrievalMetrics:
    def __init__(self, ks=KS, depth=10):
        self.ks, self.depth = ks, depth
        self.hits = {k: 0 for k in ks}
        self.reciprocal_rank, self.count = 0.0, 0

    def update(self, similarity, targets):
        ranking = similarity.topk(self.depth, dim=1).indices
        found = ranking == targets.unsqueeze(1)
        for k in self.ks:
            self.hits[k] += int(found[:, :k].sum())
        weights = 1.0 / torch.arange(1, self.depth + 1)
        self.reciprocal_rank += float((found * weights).sum())
        self.count += len(targets)

    def compute(self):
        out = {f"recall@{k}": hits / self.count for k, hits in self.hits.items()}
        out[f"mrr@{self.depth}"] = self.reciprocal_rank / self.count
        return out


@torch.inference_mode()
def evaluate(encoder, gallery, stream, n_batches):
    encoder.eval()
    metrics = RetrievalMetrics()
    for _ in range(n_batches):
        images, ids = stream.next_batch()
        similarity = encoder(images) @ gallery.T
        metrics.update(similarity, ids)
    return metrics.compute()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="query batches")
    parser.add_argument("--batch-size", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(0)

    gallery = make_products()
    stream = QueryStream(gallery, args.batch_size)
    encoder = Encoder(stream.render)
    results = evaluate(encoder, gallery, stream, args.steps)
    print("  ".join(f"{name} {value:.4f}" for name, value in results.items()))


if __name__ == "__main__":
    main()
