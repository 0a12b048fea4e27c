"""A continuous-filter neural potential (SchNet family)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class GaussianBasis(nn.Module):
    def __init__(self, cutoff, count):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0.0, cutoff, count))
        self.gamma = 0.5 * (count / cutoff) ** 2

    def forward(self, distance):
        return torch.exp(-self.gamma * (distance[:, None] - self.centres) ** 2)


class Interaction(nn.Module):
    def __init__(self, features, basis):
        super().__init__()
        self.filter1 = nn.Linear(basis, features)
        self.filter2 = nn.Linear(features, features)
        self.lift = nn.Linear(features, features, bias=False)
        self.out1 = nn.Linear(features, features)
        self.out2 = nn.Linear(features, features)

    def forward(self, h, rbf, envelope, src, dst):
        weights = self.filter2(F.silu(self.filter1(rbf))) * envelope[:, None]
        messages = self.lift(h)[src] * weights
        gathered = torch.zeros_like(h).index_add_(0, dst, messages)
        return h + self.out2(F.silu(self.out1(gathered)))


class Potential(nn.Module):
    def __init__(self, features, layers, basis, cutoff, species=8):
        super().__init__()
        self.cutoff = cutoff
        self.embed = nn.Embedding(species, features)
        self.basis = GaussianBasis(cutoff, basis)
        self.layers = nn.ModuleList([Interaction(features, basis) for _ in range(layers)])
        self.readout = nn.Sequential(nn.Linear(features, features // 2), nn.SiLU(),
                                     nn.Linear(features // 2, 1))

    def forward(self, species, positions, box, src, dst):
        delta = positions[src] - positions[dst]
        delta = delta - box * torch.round(delta / box)
        distance = torch.sqrt((delta ** 2).sum(-1) + 1e-8)
        inside = (distance < self.cutoff).to(distance.dtype)
        envelope = 0.5 * (torch.cos(math.pi * distance / self.cutoff) + 1.0) * inside
        rbf = self.basis(distance)
        h = self.embed(species)
        for layer in self.layers:
            h = layer(h, rbf, envelope, src, dst)
        return self.readout(h).sum()
