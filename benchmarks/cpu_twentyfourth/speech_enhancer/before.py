"""Train a mask-based speech enhancer in the time domain (SI-SNR)."""
import argparse
import math

import torch
import torch.nn as nn


def synth_speech(n, length, rate, gen):
    """Voiced-like signals: a few harmonics with a slow envelope."""
    t = torch.arange(length) / rate
    f0 = 90 + 130 * torch.rand(n, 1, generator=gen)
    out = torch.zeros(n, length)
    for k in range(1, 7):
        phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
        amp = torch.rand(n, 1, generator=gen) / k
        out += amp * torch.sin(2 * math.pi * k * f0 * t + phase)
    env = 0.5 + 0.5 * torch.sin(2 * math.pi * (1 + 3 * torch.rand(n, 1, generator=gen)) * t)
    return 0.3 * out * env


class NoisyMixtures:
    """Endless stream of (noisy, clean) segments."""

    def __init__(self, batch_size, length, rate, seed=0, pool=64):
        self.gen = torch.Generator().manual_seed(seed)
        self.batch_size = batch_size
        self.clean = synth_speech(pool, length, rate, self.gen)
        self.noise = torch.randn(pool, length, generator=self.gen)

    def next(self):
        n = len(self.clean)
        i = torch.randint(n, (self.batch_size,), generator=self.gen)
        j = torch.randint(n, (self.batch_size,), generator=self.gen)
        snr = 10 * torch.rand(self.batch_size, 1, generator=self.gen)
        clean, noise = self.clean[i], self.noise[j]
        power = clean.pow(2).mean(1, keepdim=True).sqrt()
        scale = power * 10 ** (-snr / 20)
        return clean + scale * noise, clean


class Framing(nn.Module):
    """Windowed analysis and overlap-add synthesis with a square-root Hann window."""

    def __init__(self, frame, hop, length):
        super().__init__()
        self.frame, self.hop, self.length = frame, hop, length
        self.count = 1 + (length - frame) // hop
        window = torch.hann_window(frame).sqrt()
        self.register_buffer("window", window)
        norm = torch.zeros(length)
        for t in range(self.count):
            norm[t * hop:t * hop + frame] += window ** 2
        self.register_buffer("norm", norm.clamp_min(1e-3))

    def analyse(self, x):
        return torch.fft.rfft(x.unfold(1, self.frame, self.hop) * self.window)

    def synthesise(self, spec):
        frames = torch.fft.irfft(spec, n=self.frame) * self.window
        out = torch.zeros(frames.size(0), self.length, device=frames.device)
        for t in range(self.count):
            start = t * self.hop
            out[:, start:start + self.frame] += frames[:, t]
        return out / self.norm


class MaskNet(nn.Module):
    def __init__(self, bins, hidden):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(bins, hidden), nn.LayerNorm(hidden), nn.PReLU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, bins)

    def forward(self, mag):
        h = self.inp(torch.log1p(mag))
        h, _ = self.rnn(h)
        return torch.sigmoid(self.out(h))


class Enhancer(nn.Module):
    def __init__(self, frame, hop, length, hidden=128):
        super().__init__()
        self.framing = Framing(frame, hop, length)
        self.mask = MaskNet(frame // 2 + 1, hidden)

    def forward(self, noisy):
        spec = self.framing.analyse(noisy)
        return self.framing.synthesise(spec * self.mask(spec.abs()))


def si_snr(estimate, target, eps=1e-8):
    estimate = estimate - estimate.mean(1, keepdim=True)
    target = target - target.mean(1, keepdim=True)
    dot = (estimate * target).sum(1, keepdim=True)
    proj = dot * target / (target.pow(2).sum(1, keepdim=True) + eps)
    noise = estimate - proj
    ratio = proj.pow(2).sum(1) / (noise.pow(2).sum(1) + eps)
    return 10 * torch.log10(ratio + eps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    rate, length = 8000, 6400
    data = NoisyMixtures(args.batch_size, length, rate, seed=1)
    model = Enhancer(frame=256, hop=64, length=length)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    average = None
    for step in range(args.steps):
        noisy, clean = data.next()
        loss = -si_snr(model(noisy), clean).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        value = -loss.item()
        average = value if average is None else 0.9 * average + 0.1 * value
    print(f"{average:.5f}")


if __name__ == "__main__":
    main()
