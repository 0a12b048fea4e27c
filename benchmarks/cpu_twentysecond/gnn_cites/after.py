"""Node classification on a synthetic citation graph with an edge-conditioned message passing network."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(11)

NODES = 1200
EDGES = 12000
FEATURES = 96
HIDDEN = 128
CLASSES = 7
LAYERS = 3
STEPS = 80
WARMUP = 4


def make_graph():
    """Random graph with homophily: most edges join nodes of one class."""
    g = torch.Generator().manual_seed(3)
    label = torch.randint(0, CLASSES, (NODES,), generator=g)
    order = torch.argsort(label)
    position = torch.empty_like(order)
    position[order] = torch.arange(NODES)
    src = torch.randint(0, NODES, (EDGES,), generator=g)
    near = (position[src] + torch.randint(-150, 151, (EDGES,), generator=g)).clamp(0, NODES - 1)
    far = torch.randint(0, NODES, (EDGES,), generator=g)
    keep = torch.rand(EDGES, generator=g) < 0.7
    dst = torch.where(keep, order[near], far)
    centers = torch.randn(CLASSES, FEATURES, generator=g)
    x = 0.35 * centers[label] + torch.randn(NODES, FEATURES, generator=g)
    year_gap = torch.rand(EDGES, 1, generator=g)
    return x, label, src, dst, year_gap


class CitationConv(nn.Module):
    """h_i' = act(W_self h_i + mean_j gate(e_ij) * W_msg h_j)."""

    def __init__(self, width):
        super().__init__()
        self.msg = nn.Linear(width, width, bias=False)
        self.own = nn.Linear(width, width)
        self.gate = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
        self.norm = nn.LayerNorm(width)

    def forward(self, h, src, dst, edge_attr, inv_degree):
        gate = self.gate(edge_attr)
        message = self.msg(h)[src] * gate
        total = torch.zeros_like(h).index_add(0, dst, message)
        return self.norm(F.relu(self.own(h) + total * inv_degree)) + h


class CitationNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATURES, HIDDEN)
        self.layers = nn.ModuleList(CitationConv(HIDDEN) for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, src, dst, edge_attr, inv_degree):
        h = F.relu(self.embed(x))
        for layer in self.layers:
            h = layer(h, src, dst, edge_attr, inv_degree)
        return self.head(h)


def main():
    x, label, src, dst, gap = make_graph()
    degree = torch.zeros(NODES).index_add(0, dst, torch.ones(EDGES))
    inv_degree = 1.0 / degree.clamp(min=1).unsqueeze(1)
    train = torch.rand(NODES, generator=torch.Generator().manual_seed(5)) < 0.5

    net = CitationNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=5e-3)
    times = []
    for step in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = net(x, src, dst, gap, inv_degree)
        loss = F.cross_entropy(logits[train], label[train])
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")

    net.eval()
    with torch.no_grad():
        guess = net(x, src, dst, gap, inv_degree).argmax(1)
    accuracy = (guess == label)[~train].float().mean().item()
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print(f"final loss {loss.item():.5f}  held-out accuracy {accuracy:.3f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
