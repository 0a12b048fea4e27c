"""Richardson-Lucy deconvolution of a stream of microscope frames."""
import argparse
import math

import torch


def gaussian_psf(shape, sigma_y, sigma_x, angle=0.3):
    """Point spread function centred at the origin of a periodic grid."""
    h, w = shape
    y = torch.fft.fftfreq(h, d=1.0 / h).view(-1, 1)
    x = torch.fft.fftfreq(w, d=1.0 / w).view(1, -1)
    u = math.cos(angle) * x + math.sin(angle) * y
    v = -math.sin(angle) * x + math.cos(angle) * y
    psf = torch.exp(-0.5 * ((u / sigma_x) ** 2 + (v / sigma_y) ** 2))
    return psf / psf.sum()


class Convolver:
    """Periodic convolution (and its adjoint) with a fixed point spread function."""

    def __init__(self, psf):
        self.shape = psf.shape
        self.otf = torch.fft.rfft2(psf)
        self.otf_conj = self.otf.conj().resolve_conj()

    def forward(self, image):
        return torch.fft.irfft2(torch.fft.rfft2(image) * self.otf, s=self.shape)

    def adjoint(self, image):
        return torch.fft.irfft2(torch.fft.rfft2(image) * self.otf_conj, s=self.shape)


class FrameSource:
    """Drifting fluorescent spots, blurred and with shot noise."""

    def __init__(self, convolver, spots=60, photons=400.0, background=4.0, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.convolver = convolver
        self.h, self.w = convolver.shape
        self.position = torch.rand(spots, 2, generator=self.gen)
        self.velocity = 0.004 * torch.randn(spots, 2, generator=self.gen)
        self.brightness = photons * (0.5 + torch.rand(spots, generator=self.gen))
        self.background = background

    def truth(self):
        iy = (self.position[:, 0] * self.h).long().clamp_(0, self.h - 1)
        ix = (self.position[:, 1] * self.w).long().clamp_(0, self.w - 1)
        flat = torch.zeros(self.h * self.w)
        flat.index_add_(0, iy * self.w + ix, self.brightness)
        return flat.view(self.h, self.w)

    def next(self):
        self.position = (self.position + self.velocity) % 1.0
        truth = self.truth()
        mean = self.convolver.forward(truth).clamp_min(0.0) + self.background
        shot = torch.randn(mean.shape, generator=self.gen) * mean.sqrt()
        return (mean + shot).clamp_min_(0.0), truth


def total_variation_weight(image, strength, eps=1e-3):
    """Denominator of the TV-regularised update."""
    dy = torch.diff(image, dim=0, append=image[:1])
    dx = torch.diff(image, dim=1, append=image[:, :1])
    norm = torch.sqrt(dy * dy + dx * dx + eps)
    ny, nx = dy / norm, dx / norm
    div = torch.diff(ny, dim=0, prepend=ny[-1:]) + torch.diff(nx, dim=1, prepend=nx[:, -1:])
    return (1.0 - strength * div).clamp_min_(0.5)


def richardson_lucy(frame, convolver, background, iterations, start=None, tv=0.002):
    estimate = torch.full_like(frame, frame.mean().item()) if start is None else start
    for i in range(iterations):
        blurred = convolver.forward(estimate) + background
        ratio = frame / blurred.clamp_min_(1e-3)
        estimate = estimate * convolver.adjoint(ratio)
        if i == iterations - 1:
            estimate = estimate / total_variation_weight(estimate, tv)
        estimate = estimate.clamp_min(0.0)
    return estimate


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / (a.norm() * b.norm() + 1e-12)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    convolver = Convolver(gaussian_psf((args.size, args.size), 1.6, 2.4))
    source = FrameSource(convolver)
    smooth = Convolver(gaussian_psf((args.size, args.size), 0.8, 0.8))

    average = torch.zeros(())
    with torch.no_grad():
        for step in range(args.steps):
            frame, truth = source.next()
            estimate = richardson_lucy(frame, convolver, source.background, args.iterations)
            score = correlation(estimate, smooth.forward(truth))
            average += (score - average) / (step + 1)
    print(f"{average.item():.5f}")


if __name__ == "__main__":
    main()
