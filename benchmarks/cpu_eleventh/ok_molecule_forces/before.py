"""Learn energies and forces of small clusters with a message-passing potential."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

SPECIES = 4
CUTOFF = 3.0


def reference(pos, species, src, dst):
    """Soft pair potential standing in for the quantum-chemistry labels."""
    r = (pos[dst] - pos[src]).norm(dim=1)
    depth = 0.3 + 0.1 * (species[src] + species[dst]).float()
    window = 0.5 * (1 + torch.cos(torch.pi * r / CUTOFF))
    pair = depth * ((1.2 / r) ** 4 - (1.2 / r) ** 2) * window
    return 0.5 * pair


def make_clusters(n=80, atoms=20, seed=29):
    """Jittered lattices; every cluster keeps its neighbour list."""
    g = torch.Generator().manual_seed(seed)
    grid = torch.cartesian_prod(*[torch.arange(3.0)] * 3) * 1.5
    clusters = []
    for _ in range(n):
        keep = torch.randperm(len(grid), generator=g)[:atoms]
        pos = grid[keep] + 0.15 * torch.randn(atoms, 3, generator=g)
        species = torch.randint(0, SPECIES, (atoms,), generator=g)
        near = (torch.cdist(pos, pos) < CUTOFF).fill_diagonal_(False)
        src, dst = near.nonzero(as_tuple=True)
        pos_g = pos.clone().requires_grad_(True)
        energy = reference(pos_g, species, src, dst).sum()
        (grad,) = torch.autograd.grad(energy, pos_g)
        clusters.append((pos, species, src, dst, energy.detach(), -grad))
    return clusters


def merge(clusters):
    """Concatenate clusters into one disconnected graph."""
    pos, species, src, dst, energy, force = zip(*clusters)
    sizes = torch.tensor([len(p) for p in pos])
    offset = torch.cumsum(sizes, 0) - sizes
    edges = torch.tensor([len(s) for s in src])
    shift = offset.repeat_interleave(edges)
    owner = torch.arange(len(clusters)).repeat_interleave(sizes)
    return (torch.cat(pos), torch.cat(species), torch.cat(src) + shift, torch.cat(dst) + shift,
            owner, torch.stack(energy), torch.cat(force))


class Interaction(nn.Module):
    def __init__(self, dim, n_rbf):
        super().__init__()
        self.project = nn.Linear(dim, dim, bias=False)
        self.filter = nn.Linear(n_rbf, dim)
        self.update = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, h, src, dst, rbf, window):
        message = self.project(h)[src] * self.filter(rbf) * window
        pooled = torch.zeros_like(h).index_add(0, dst, message)
        return h + self.update(pooled)


class Potential(nn.Module):
    def __init__(self, dim=64, n_rbf=16, depth=2):
        super().__init__()
        self.embed = nn.Embedding(SPECIES, dim)
        self.register_buffer("centres", torch.linspace(0.5, CUTOFF, n_rbf))
        self.layers = nn.ModuleList(Interaction(dim, n_rbf) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim // 2), nn.SiLU(), nn.Linear(dim // 2, 1))

    def forward(self, pos, species, src, dst, owner, n_clusters):
        r = (pos[dst] - pos[src]).norm(dim=1, keepdim=True)
        rbf = torch.exp(-8.0 * (r - self.centres).square())
        window = 0.5 * (1 + torch.cos(torch.pi * r / CUTOFF))
        h = self.embed(species)
        for layer in self.layers:
            h = layer(h, src, dst, rbf, window)
        atom_energy = self.readout(h).squeeze(1)
        return atom_energy.new_zeros(n_clusters).index_add(0, owner, atom_energy)


def training_loss(model, batch, force_weight=10.0):
    pos, species, src, dst, owner, energy, force = batch
    pos = pos.requires_grad_(True)
    predicted = model(pos, species, src, dst, owner, len(energy))
    # the force loss is differentiated again with respect to the weights
    (grad,) = torch.autograd.grad(predicted.sum(), pos, create_graph=True)
    return F.mse_loss(predicted / 20, energy / 20) + force_weight * F.mse_loss(-grad, force)


def train(model, clusters, steps, batch_size=8):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    g = torch.Generator().manual_seed(6)
    losses = []
    while len(losses) < steps:
        for idx in torch.randperm(len(clusters), generator=g).split(batch_size):
            loss = training_loss(model, merge([clusters[i] for i in idx.tolist()]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    clusters = make_clusters()
    losses = train(Potential(), clusters, args.steps)
    tail = losses[-16:]
    print(f"loss, last {len(tail)} steps: {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
