"""Waveform denoiser for machine-condition signals, multi-resolution spectral loss."""
import argparse
import time

import torch
import torch.nn as nn

RESOLUTIONS = [(512, 128), (1024, 256), (2048, 512)]


def clean_signals(batch, length, gen):
    """Rotating machinery: a few harmonics with slow amplitude modulation."""
    t = torch.arange(length) / 8000.0
    while True:
        base = 40 + 60 * torch.rand(batch, 1, generator=gen)
        signal = torch.zeros(batch, length)
        for k in (1, 2, 3):
            phase = 6.283 * torch.rand(batch, 1, generator=gen)
            signal += torch.sin(6.283 * base * k * t + phase) / k
        yield signal


def with_noise(signals, gen):
    for clean in signals:
        level = 0.1 + 0.4 * torch.rand(len(clean), 1, generator=gen)
        yield clean + level * torch.randn(clean.shape, generator=gen), clean


def normalised(pairs):
    for noisy, clean in pairs:
        scale = noisy.std(1, keepdim=True)
        yield noisy / scale, clean / scale


class Denoiser(nn.Module):
    """Strided analysis, residual dilated convolutions, transposed synthesis."""

    def __init__(self, width=48, layers=3, stride=16):
        super().__init__()
        self.analysis = nn.Conv1d(1, width, stride * 2, stride=stride, padding=stride // 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.PReLU(width), nn.Conv1d(width, width, 3, padding=2 ** i, dilation=2 ** i))
            for i in range(layers)
        )
        self.synthesis = nn.ConvTranspose1d(width, 1, stride * 2, stride=stride, padding=stride // 2)

    def forward(self, wave):
        h = self.analysis(wave.unsqueeze(1))
        for block in self.blocks:
            h = h + block(h)
        return self.synthesis(h).squeeze(1)


class SpectralLoss(nn.Module):
    def __init__(self, resolutions):
        super().__init__()
        self.resolutions = resolutions
        for size, _ in resolutions:
            self.register_buffer(f"window_{size}", torch.hann_window(size))

    def magnitude(self, wave, size, hop):
        frames = wave.unfold(-1, size, hop)
        spectrum = torch.fft.rfft(frames * getattr(self, f"window_{size}"))
        return (spectrum.real.square() + spectrum.imag.square()).clamp_min(1e-7).sqrt()

    def forward(self, estimate, target):
        total = 0.0
        for size, hop in self.resolutions:
            a = self.magnitude(estimate, size, hop)
            b = self.magnitude(target, size, hop)
            convergence = (b - a).norm() / b.norm()
            total = total + convergence + (a.log() - b.log()).abs().mean()
        return total / len(self.resolutions)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--length", type=int, default=40960)
    args = parser.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(7)
    pipeline = normalised(with_noise(clean_signals(args.batch, args.length, gen), gen))
    model = Denoiser()
    spectral = SpectralLoss(RESOLUTIONS)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

    tic = time.perf_counter()
    for step, (noisy, clean) in zip(range(args.steps), pipeline):
        if step == 5:
            tic = time.perf_counter()
        estimate = model(noisy)
        loss = spectral(estimate, clean) + 10 * (estimate - clean).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f}")
    toc = time.perf_counter()
    print(f"mean step {(toc - tic) / max(1, args.steps - 5) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
