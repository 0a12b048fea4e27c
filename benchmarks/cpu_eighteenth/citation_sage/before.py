"""Edge-aware message passing network on a citation graph, full-batch training."""
import argparse
import copy
import logging
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger(__name__)


class GraphData:
    def __init__(self, x, edge_index, edge_type, y, train_mask, val_mask, test_mask):
        self.x, self.edge_index, self.edge_type, self.y = x, edge_index, edge_type, y
        self.train_mask, self.val_mask, self.test_mask = train_mask, val_mask, test_mask

    @property
    def num_nodes(self):
        return self.x.size(0)

    def __repr__(self):
        return f"GraphData(x={list(self.x.shape)}, edges={self.edge_index.size(1)}, classes={int(self.y.max()) + 1})"


def planted_partition(num_nodes, avg_degree, num_classes, num_features, seed):
    """Citation-like graph: skewed degrees, homophilous edges, noisy bag-of-words features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, num_classes, size=num_nodes)
    members = [np.flatnonzero(y == c) for c in range(num_classes)]
    num_edges = num_nodes * avg_degree
    src = rng.integers(0, num_nodes, size=num_edges)
    popular = rng.pareto(1.6, size=num_nodes) + 1
    dst = rng.choice(num_nodes, size=num_edges, p=popular / popular.sum())
    homophilous = rng.random(num_edges) < 0.55
    for c in range(num_classes):
        pick = homophilous & (y[src] == c)
        dst[pick] = rng.choice(members[c], size=pick.sum())
    keep = src != dst
    src, dst = src[keep], dst[keep]
    edge_index = torch.from_numpy(np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])]))
    edge_type = torch.cat([torch.zeros(len(src)), torch.ones(len(src))]).long()
    topics = rng.random((num_classes, num_features)) < 0.06
    x = (rng.random((num_nodes, num_features)) < 0.03) | (topics[y] & (rng.random((num_nodes, num_features)) < 0.15))
    x = torch.from_numpy(x.astype(np.float32))
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    perm = torch.from_numpy(rng.permutation(num_nodes))
    masks = []
    for lo, hi in ((0.0, 0.3), (0.3, 0.5), (0.5, 1.0)):
        m = torch.zeros(num_nodes, dtype=torch.bool)
        m[perm[int(lo * num_nodes):int(hi * num_nodes)]] = True
        masks.append(m)
    return GraphData(x, edge_index, edge_type, torch.from_numpy(y), *masks)


class MessagePassing(nn.Module):
    """propagate(): gather sources, message(), mean-aggregate at the targets."""

    def propagate(self, edge_index, x, **edge_kwargs):
        src, dst = edge_index
        msg = self.message(x[src], **edge_kwargs)
        out = msg.new_zeros(x.size(0), msg.size(-1))
        out.index_add_(0, dst, msg)
        count = torch.bincount(dst, minlength=x.size(0)).clamp(min=1).to(out.dtype)
        return out / count[:, None]

    def message(self, x_j, **edge_kwargs):
        raise NotImplementedError


class DirectedSAGEConv(MessagePassing):
    """SAGE with a learned scale for 'cites' and 'cited-by' edges."""

    def __init__(self, in_dim, out_dim, num_edge_types=2):
        super().__init__()
        self.lin_nbr = nn.Linear(in_dim, out_dim, bias=False)
        self.lin_self = nn.Linear(in_dim, out_dim)
        self.edge_scale = nn.Embedding(num_edge_types, out_dim)
        nn.init.ones_(self.edge_scale.weight)

    def forward(self, x, edge_index, edge_type):
        agg = self.propagate(edge_index, x, edge_type=edge_type)
        return self.lin_self(x) + agg

    def message(self, x_j, edge_type):
        return self.lin_nbr(x_j) * self.edge_scale(edge_type)


class SAGE(nn.Module):
    def __init__(self, in_dim, hidden, num_classes, dropout=0.3):
        super().__init__()
        self.conv1 = DirectedSAGEConv(in_dim, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.conv2 = DirectedSAGEConv(hidden, num_classes)
        self.dropout = dropout

    def forward(self, data):
        h = self.conv1(data.x, data.edge_index, data.edge_type)
        h = F.dropout(F.relu(self.norm(h)), self.dropout, self.training)
        return self.conv2(h, data.edge_index, data.edge_type)


@torch.no_grad()
def test(model, data):
    model.eval()
    pred = model(data).argmax(dim=1)
    return [float((pred[m] == data.y[m]).float().mean()) for m in (data.train_mask, data.val_mask, data.test_mask)]


def train_epoch(model, data, optimizer):
    model.train()
    optimizer.zero_grad()
    out = model(data)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return float(loss)


def main():
    logging.basicConfig(level=logging.INFO, format="[%(levelname).1s] %(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=2700)
    parser.add_argument("--degree", type=int, default=8)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--eval-every", type=int, default=25)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    data = planted_partition(args.nodes, args.degree, args.classes, args.features, args.seed)
    logger.info("%s", data)
    model = SAGE(args.features, args.hidden, args.classes)
    optimizer = torch.optim.Adam([
        {"params": model.conv1.parameters(), "weight_decay": 5e-4},
        {"params": [*model.norm.parameters(), *model.conv2.parameters()], "weight_decay": 0.0},
    ], lr=args.lr)

    best_val, best_state, times = 0.0, None, []
    for epoch in range(1, args.epochs + 1):
        t = time.perf_counter()
        loss = train_epoch(model, data, optimizer)
        times.append(time.perf_counter() - t)
        if epoch % 10 == 0:
            logger.info("epoch %03d loss %.4f (%.0f ms)", epoch, loss, 1e3 * np.median(times[-10:]))
        if epoch % args.eval_every == 0:
            train_acc, val_acc, test_acc = test(model, data)
            logger.info("epoch %03d acc train %.3f val %.3f test %.3f", epoch, train_acc, val_acc, test_acc)
            if val_acc > best_val:
                best_val, best_state = val_acc, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    logger.info("best: val %.4f test %.4f", best_val, test(model, data)[2])


if __name__ == "__main__":
    main()
