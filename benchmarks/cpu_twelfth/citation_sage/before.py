"""GraphSAGE for link prediction on a citation graph.

The papers carry no text features, so every node owns a learnable vector.
Each step takes a batch of citation edges, samples a two-hop neighbourhood
around their end points, aggregates, and ranks the true target above random papers.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_citation_graph(num_nodes, avg_degree, communities, seed):
    """Undirected graph in CSR form; papers cite mostly inside their own community."""
    rng = np.random.default_rng(seed)
    num_edges = num_nodes * avg_degree // 2
    src = rng.integers(0, num_nodes, num_edges)
    size = num_nodes // communities
    inside = rng.random(num_edges) < 0.9
    local = (src // size) * size + rng.integers(0, size, num_edges)
    dst = np.where(inside, local, rng.integers(0, num_nodes, num_edges)) % num_nodes
    # every node also gets one edge to its predecessor so that nobody is isolated
    ring = np.arange(num_nodes)
    src = np.concatenate([src, ring])
    dst = np.concatenate([dst, (ring - 1) % num_nodes])
    heads = np.concatenate([src, dst])
    tails = np.concatenate([dst, src])
    order = np.argsort(heads, kind="stable")
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(heads, minlength=num_nodes), out=indptr[1:])
    return torch.from_numpy(indptr), torch.from_numpy(tails[order]), torch.from_numpy(np.stack([src, dst]))


class NeighborSampler:
    def __init__(self, indptr, indices, fanouts, generator):
        self.indptr, self.indices = indptr, indices
        self.fanouts, self.generator = fanouts, generator

    def _sample(self, nodes, fanout):
        start = self.indptr[nodes]
        degree = self.indptr[nodes + 1] - start
        r = torch.rand(nodes.numel(), fanout, generator=self.generator)
        offset = (r * degree[:, None]).long()
        return self.indices[start[:, None] + offset]

    def __call__(self, seeds):
        layers = [seeds]
        for fanout in self.fanouts:
            layers.append(self._sample(layers[-1].reshape(-1), fanout).reshape(-1))
        return layers


class SAGEConv(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.self_fc = nn.Linear(in_dim, out_dim)
        self.neigh_fc = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x_self, x_neigh):
        mean = x_neigh.view(x_self.size(0), -1, x_neigh.size(-1)).mean(dim=1)
        return self.self_fc(x_self) + self.neigh_fc(mean)


class GraphSAGE(nn.Module):
    def __init__(self, num_nodes, emb_dim, hidden_dim, out_dim):
        super().__init__()
        self.node_emb = nn.Embedding(num_nodes, emb_dim)
        nn.init.normal_(self.node_emb.weight, std=0.1)
        self.conv1 = SAGEConv(emb_dim, hidden_dim)
        self.conv2 = SAGEConv(hidden_dim, out_dim)

    def forward(self, layers):
        h0, h1, h2 = (self.node_emb(nodes) for nodes in layers)
        z0 = F.relu(self.conv1(h0, h1))
        z1 = F.relu(self.conv1(h1, h2))
        return F.normalize(self.conv2(z0, z1), dim=-1)


def link_loss(z, batch, temperature=0.2):
    """z holds [sources, targets]; the other targets of the batch act as negatives."""
    src, dst = z[:batch], z[batch:]
    logits = src @ dst.t() / temperature
    return F.cross_entropy(logits, torch.arange(batch))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=320)
    parser.add_argument("--num-nodes", type=int, default=120_000)
    parser.add_argument("--emb-dim", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    indptr, indices, edges = make_citation_graph(args.num_nodes, 12, 240, args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    sampler = NeighborSampler(indptr, indices, (8, 5), generator)
    model = GraphSAGE(args.num_nodes, args.emb_dim, 64, 64)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr)

    running = None
    for _ in range(args.steps):
        pick = torch.randint(edges.size(1), (args.batch_size,), generator=generator)
        layers = sampler(edges[:, pick].reshape(-1))
        loss = link_loss(model(layers), args.batch_size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        running = value if running is None else 0.95 * running + 0.05 * value
    if running is not None:
        print(f"{args.steps} steps, smoothed link loss {running:.2f}")


if __name__ == "__main__":
    main()
