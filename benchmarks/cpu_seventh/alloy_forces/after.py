"""Neural potential for a binary alloy, fitted to energies and forces.

Reference labels come from a pair potential with a density term, so the script is self-contained.
"""
import argparse
import statistics
import time

import torch
import torch.nn as nn

CUTOFF = 3.2


def lattice(side, spacing=1.1):
    axis = torch.arange(side, dtype=torch.float32) * spacing
    return torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)


def switch(r):
    return 0.5 * (torch.cos(torch.pi * r.clamp(max=CUTOFF) / CUTOFF) + 1)


def pair_distances(pos):
    """(B, N, N) distances; the diagonal is pushed out of reach of the cutoff."""
    delta = pos[:, :, None] - pos[:, None]
    far = torch.eye(pos.shape[1], device=pos.device) * (2 * CUTOFF) ** 2
    return (delta.square().sum(-1) + far).sqrt()


def reference(pos, kind):
    pos = pos.detach().requires_grad_(True)
    r = pair_distances(pos)
    scale = torch.where(kind[:, :, None] == kind[:, None], 1.0, 0.8)
    pair = (scale * (0.9 / r ** 6 - 1.2 / r ** 3) * switch(r)).sum((1, 2)) / 2
    density = (switch(r) * torch.exp(-r)).sum(2)
    energy = pair - density.clamp_min(1e-6).sqrt().sum(1)
    force = -torch.autograd.grad(energy.sum(), pos)[0]
    return energy.detach(), force


def make_structures(count, side, seed):
    g = torch.Generator().manual_seed(seed)
    base = lattice(side)
    pos = base + 0.08 * torch.randn(count, *base.shape, generator=g)
    kind = torch.randint(0, 2, (count, len(base)), generator=g)
    energy, force = reference(pos, kind)
    return pos, kind, energy, force


class Potential(nn.Module):
    def __init__(self, radial=12, width=48):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0.7, CUTOFF, radial))
        self.eta = 6.0
        self.species = nn.Embedding(2, 8)
        self.mix = nn.Linear(8, radial, bias=False)
        self.atom = nn.Sequential(nn.Linear(radial + 8, width), nn.SiLU(),
                                  nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, pos, kind):
        r = pair_distances(pos)
        basis = torch.exp(-self.eta * (r[..., None] - self.centres) ** 2) * switch(r)[..., None]
        emb = self.species(kind)
        descriptor = torch.einsum("bijk,bjk->bik", basis, self.mix(emb))
        return self.atom(torch.cat([descriptor, emb], -1)).sum((1, 2))


def energy_and_forces(model, pos, kind, train=True):
    pos = pos.detach().requires_grad_(True)
    energy = model(pos, kind)
    grad, = torch.autograd.grad(energy.sum(), pos, create_graph=train)
    return energy, -grad


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=6)
    ap.add_argument("--side", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)

    pos, kind, energy, force = make_structures(160, args.side, seed=9)
    shift, scale = energy.mean(), force.std()
    model = Potential()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, amsgrad=True)
    pick = torch.Generator().manual_seed(1)

    times = []
    for step in range(1, args.steps + 1):
        tic = time.perf_counter()
        rows = torch.randint(0, len(pos), (args.batch,), generator=pick)
        e, f = energy_and_forces(model, pos[rows], kind[rows])
        loss_e = ((e - (energy[rows] - shift) / scale) / pos.shape[1]).square().mean()
        loss_f = (f - force[rows] / scale).square().mean()
        loss = loss_e + 10 * loss_f
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - tic)
        if step % 20 == 0:
            print(f"step {step}: energy {loss_e.item():.5f}  force {loss_f.item():.5f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
