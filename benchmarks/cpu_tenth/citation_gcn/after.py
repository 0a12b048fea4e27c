"""Node classification on a citation graph with a three-layer GCN."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def citation_graph(nodes=6000, classes=6, words=300, cites=12, seed=5):
    """Papers cite mostly within their own field; abstracts are bags of words."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (nodes,), generator=g)
    src = torch.arange(nodes).repeat_interleave(cites)
    dst = torch.randint(0, nodes, (nodes * cites,), generator=g)
    by_field = torch.argsort(y)
    first = torch.searchsorted(y[by_field], torch.arange(classes))
    count = torch.bincount(y, minlength=classes)
    offset = (torch.rand(len(src), generator=g) * count[y[src]]).long()
    own = by_field[first[y[src]] + offset]
    same = torch.rand(len(src), generator=g) < 0.6
    dst = torch.where(same, own, dst)
    keep = src != dst
    edge_index = torch.stack([src[keep], dst[keep]])
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    topics = torch.rand(classes, words, generator=g) * 0.04
    x = (torch.rand(nodes, words, generator=g) < topics[y] + 0.01).float()
    split = torch.rand(nodes, generator=g)
    return {"x": x, "y": y, "edge_index": edge_index, "train": split < 0.5, "val": split >= 0.5}


def normalized_adjacency(edge_index, num_nodes):
    """D^-1/2 (A + I) D^-1/2 as a sparse matrix."""
    loops = torch.arange(num_nodes).expand(2, -1)
    index = torch.cat([edge_index, loops], dim=1)
    ones = torch.ones(index.shape[1])
    adj = torch.sparse_coo_tensor(index, ones, (num_nodes, num_nodes), check_invariants=False).coalesce()
    row, col = adj.indices()
    weight = adj.values().clamp(max=1)
    degree = torch.zeros(num_nodes).index_add_(0, row, weight)
    scale = degree.rsqrt()
    return torch.sparse_coo_tensor(
        adj.indices(), scale[row] * weight * scale[col], adj.shape, is_coalesced=True, check_invariants=False
    )


class GCNConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout, bias=False)
        self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x, adj):
        return torch.sparse.mm(adj, self.lin(x)) + self.bias


class CitationModel(nn.Module):
    """Written in the hooks style: training_step / validation_step / configure_optimizers."""

    def __init__(self, words, classes, hidden=48, dropout=0.5, lr=1e-2):
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(words, hidden), GCNConv(hidden, hidden), GCNConv(hidden, classes)])
        self.dropout = dropout
        self.lr = lr

    def forward(self, x, adj):
        for conv in self.convs[:-1]:
            x = F.relu(conv(x, adj))
            x = F.dropout(x, self.dropout, self.training)
        return self.convs[-1](x, adj)

    def training_step(self, data):
        out = self(data["x"], data["adj"])
        return F.cross_entropy(out[data["train"]], data["y"][data["train"]])

    def validation_step(self, data):
        out = self(data["x"], data["adj"])
        hit = out.argmax(dim=1) == data["y"]
        return hit[data["val"]].float().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr, weight_decay=5e-4, fused=True)


class Fit:
    def __init__(self, max_steps):
        self.max_steps = max_steps

    def run(self, module, data):
        optimizer = module.configure_optimizers()
        module.train()
        loss = None
        for _ in range(self.max_steps):
            loss = module.training_step(data)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        module.eval()
        with torch.no_grad():
            acc = module.validation_step(data)
        return loss.item(), acc.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = citation_graph()
    data["adj"] = normalized_adjacency(data["edge_index"], data["x"].shape[0])
    module = CitationModel(data["x"].shape[1], int(data["y"].max()) + 1)
    loss, acc = Fit(args.steps).run(module, data)
    print(f"steps {args.steps}  train loss {loss:.4f}  val accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
