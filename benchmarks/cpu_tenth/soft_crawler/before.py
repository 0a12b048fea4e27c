"""Learning a gait by differentiating through a soft-body simulation.

A rectangular body of masses and springs crawls on frictional ground. The
springs change their rest length along sine waves, whose amplitudes and phases
are optimised by gradient descent through the simulated time steps.
"""
import argparse
import math

import torch

torch.autograd.set_detect_anomaly(True)

COLS, ROWS = 24, 6
DT = 0.008
SUBSTEPS = 20        # simulated steps per gradient step
STIFFNESS = 120.0
DAMPING = 0.6
GRAVITY = 9.8
OMEGA = 18.0


def lattice(cols, rows, spacing=0.1):
    ys, xs = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    pos = torch.stack([xs.flatten(), ys.flatten()], dim=1).float() * spacing
    pos[:, 1] += 0.02
    ident = torch.arange(rows * cols).view(rows, cols)
    pairs = [
        torch.stack([ident[:, :-1].flatten(), ident[:, 1:].flatten()]),
        torch.stack([ident[:-1].flatten(), ident[1:].flatten()]),
        torch.stack([ident[:-1, :-1].flatten(), ident[1:, 1:].flatten()]),
        torch.stack([ident[:-1, 1:].flatten(), ident[1:, :-1].flatten()]),
    ]
    return pos, torch.cat(pairs, dim=1)


def incidence(springs, masses):
    """Dense (masses, springs) matrix of -1 / +1, small enough for this body."""
    m = torch.zeros(masses, springs.shape[1])
    cols = torch.arange(springs.shape[1])
    m[springs[0], cols] = 1.0
    m[springs[1], cols] = -1.0
    return m


def smooth_contact(height):
    """Ground push, zero well above the ground, soft near it."""
    return torch.nn.functional.softplus(-height * 200.0) * 3.0


class Crawler:
    def __init__(self):
        self.pos0, springs = lattice(COLS, ROWS)
        self.inc = incidence(springs, len(self.pos0))
        self.inc_t = self.inc.t().contiguous()
        delta = self.inc_t @ self.pos0
        self.rest = delta.norm(dim=1)

    def forces(self, pos, vel, rest):
        delta = self.inc_t @ pos
        dvel = self.inc_t @ vel
        length = (delta.square().sum(dim=1) + 1e-8).sqrt()
        direction = delta / length[:, None]
        closing = (dvel * direction).sum(dim=1)
        tension = STIFFNESS * (length - rest) + DAMPING * closing
        force = -(self.inc @ (tension[:, None] * direction))
        normal = smooth_contact(pos[:, 1])
        friction = -0.8 * normal * torch.tanh(vel[:, 0] * 2.0)
        ground = torch.stack([friction, normal - 0.5 * normal * vel[:, 1].clamp(max=1.0)], dim=1)
        gravity = torch.tensor([0.0, -GRAVITY * 0.05])
        return force + ground + gravity

    def simulate(self, amplitude, phase):
        pos, vel = self.pos0, torch.zeros_like(self.pos0)
        gain = 0.15 * torch.tanh(amplitude)
        for step in range(SUBSTEPS):
            wave = torch.sin(OMEGA * step * DT + phase)
            rest = self.rest * (1 + gain * wave)
            acc = self.forces(pos, vel, rest) / 0.05
            vel = (vel + DT * acc) * 0.995
            pos = pos + DT * vel
        return pos, vel


def objective(crawler, amplitude, phase):
    pos, vel = crawler.simulate(amplitude, phase)
    travel = (pos[:, 0] - crawler.pos0[:, 0]).mean()
    bounce = vel[:, 1].square().mean()
    effort = amplitude.square().mean()
    return -travel + 0.01 * bounce + 1e-3 * effort


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    crawler = Crawler()
    gen = torch.Generator().manual_seed(6)
    n = len(crawler.rest)
    amplitude = (0.1 * torch.randn(n, generator=gen)).requires_grad_()
    phase = (2 * math.pi * torch.rand(n, generator=gen)).requires_grad_()
    optimizer = torch.optim.Adam([amplitude, phase], lr=0.02)

    loss = None
    for _ in range(args.steps):
        loss = objective(crawler, amplitude, phase)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([amplitude, phase], 1.0)
        optimizer.step()
    print(f"steps {args.steps}  objective {loss.item():.6f}")


if __name__ == "__main__":
    main()
