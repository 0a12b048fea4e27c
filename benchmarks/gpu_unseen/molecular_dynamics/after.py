"""Langevin dynamics of a periodic liquid with a trained neural potential."""
import argparse
import json
import math
import time

import torch

from potential import Potential

WARMUP = 10


def lattice(side, spacing, device):
    axis = torch.arange(side, device=device, dtype=torch.float32) * spacing
    grid = torch.cartesian_prod(axis, axis, axis)
    return grid + 0.1 * torch.randn_like(grid)


class NeighbourList:
    """Pairs within cutoff + skin, rebuilt every few steps."""

    def __init__(self, box, reach, every):
        self.box, self.reach, self.every = box, reach, every
        self.age = 0
        self.pairs = None

    def __call__(self, positions):
        if self.pairs is None or self.age == self.every:
            self.pairs = self.build(positions)
            self.age = 0
        self.age += 1
        return self.pairs

    def build(self, positions):
        near = torch.zeros(len(positions), len(positions), device=positions.device)
        for axis in range(3):
            d = positions[:, None, axis] - positions[None, :, axis]
            d = d - self.box * torch.round(d / self.box)
            near += d * d
        close = near < self.reach ** 2
        close.fill_diagonal_(False)
        return close.nonzero(as_tuple=True)


def energy_and_forces(model, species, positions, box, pairs):
    positions = positions.detach().requires_grad_(True)
    energy = model(species, positions, box, *pairs)
    gradient, = torch.autograd.grad(energy, positions)
    return energy.detach(), -gradient


class Langevin:
    def __init__(self, masses, dt, friction, temperature):
        self.masses = masses[:, None]
        self.dt = dt
        self.decay = math.exp(-friction * dt)
        self.kick = torch.sqrt((1 - self.decay ** 2) * temperature / self.masses)

    def first_half(self, positions, velocities, forces):
        velocities = velocities + 0.5 * self.dt * forces / self.masses
        positions = positions + 0.5 * self.dt * velocities
        velocities = self.decay * velocities + self.kick * torch.randn_like(velocities)
        return positions + 0.5 * self.dt * velocities, velocities

    def second_half(self, velocities, forces):
        return velocities + 0.5 * self.dt * forces / self.masses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    if args.small:
        side, features, layers, basis = 6, 16, 2, 8
    else:
        side, features, layers, basis = 15, 256, 4, 64
    spacing, cutoff, skin = 2.15, 5.0, 0.5
    box = side * spacing

    model = Potential(features, layers, basis, cutoff).to(device).eval()
    positions = lattice(side, spacing, device)
    count = len(positions)
    species = torch.randint(0, 8, (count,), device=device)
    masses = torch.tensor([1.0, 12.0, 14.0, 16.0, 19.0, 23.0, 32.0, 35.5], device=device)[species]
    velocities = torch.randn(count, 3, device=device) * torch.sqrt(0.02 / masses)[:, None]

    neighbours = NeighbourList(box, cutoff + skin, every=10)
    thermostat = Langevin(masses, dt=0.005, friction=0.1, temperature=0.02)
    potential_log = torch.zeros(WARMUP + args.steps, device=device)
    kinetic_log = torch.zeros(WARMUP + args.steps, device=device)
    _, forces = energy_and_forces(model, species, positions, box, neighbours(positions))

    for step in range(WARMUP + args.steps):
        if step == WARMUP:
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        positions, velocities = thermostat.first_half(positions, velocities, forces)
        positions = torch.remainder(positions, box)
        energy, forces = energy_and_forces(model, species, positions, box, neighbours(positions))
        velocities = thermostat.second_half(velocities, forces)
        potential_log[step] = energy
        kinetic_log[step] = 0.5 * (masses[:, None] * velocities ** 2).sum()

    if device == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    temperature = kinetic_log[WARMUP:].mean().item() / (1.5 * count)
    print(f"{count} atoms, {len(neighbours.pairs[0])} pairs, "
          f"mean potential {potential_log[WARMUP:].mean().item():.5f}, temperature {temperature:.5f}")
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    print(json.dumps({"ms": elapsed / args.steps * 1e3, "peak_mb": peak}))


if __name__ == "__main__":
    main()
