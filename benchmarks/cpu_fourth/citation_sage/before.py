"""Node classification on a citation network, full graph, GraphSAGE."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(nodes, edges, feats, classes, gen):
    y = torch.randint(0, classes, (nodes,), generator=gen)
    centers = torch.randn(classes, feats, generator=gen)
    x = centers[y] + 2.0 * torch.randn(nodes, feats, generator=gen)
    src = torch.randint(0, nodes, (edges,), generator=gen)
    order = torch.argsort(y)
    start = torch.searchsorted(y[order], y[src])
    size = torch.bincount(y, minlength=classes)[y[src]]
    same = order[start + (torch.rand(edges, generator=gen) * size).long()]
    other = torch.randint(0, nodes, (edges,), generator=gen)
    keep = torch.rand(edges, generator=gen) < 0.7
    dst = torch.where(keep, same, other)
    return x, y, torch.stack([src, dst])


class SageConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin_self = nn.Linear(cin, cout)
        self.lin_nbr = nn.Linear(cin, cout)

    def message(self, x_src):
        return F.relu(self.lin_nbr(x_src))

    def forward(self, x, edge_index, inv_deg):
        src, dst = edge_index
        msg = self.message(x[src])
        agg = torch.zeros(x.shape[0], msg.shape[1]).index_add_(0, dst, msg)
        return self.lin_self(x) + agg * inv_deg


class Sage(nn.Module):
    def __init__(self, feats, hidden, classes, depth=2, drop=0.3):
        super().__init__()
        dims = [feats] + [hidden] * depth
        self.convs = nn.ModuleList(SageConv(a, b) for a, b in zip(dims, dims[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(depth))
        self.out = nn.Linear(hidden, classes)
        self.drop = drop

    def forward(self, x, edge_index, inv_deg):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, edge_index, inv_deg)))
            x = F.dropout(x, self.drop, self.training)
        return self.out(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--nodes", type=int, default=2500)
    ap.add_argument("--edges", type=int, default=25000)
    ap.add_argument("--hidden", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(8)

    x, y, edge_index = make_graph(args.nodes, args.edges, 96, 7, gen)
    deg = torch.bincount(edge_index[1], minlength=args.nodes).clamp(min=1)
    inv_deg = (1.0 / deg).unsqueeze(1)
    train = torch.rand(args.nodes, generator=gen) < 0.5
    model = Sage(96, args.hidden, 7)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)

    times, loss = [], None
    for step in range(args.steps):
        t0 = time.perf_counter()
        logits = model(x, edge_index, inv_deg)
        loss = F.cross_entropy(logits[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        hit = model(x, edge_index, inv_deg).argmax(1)[~train] == y[~train]
    print(f"final loss {loss.item():.4f} test accuracy {hit.float().mean().item():.3f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
