"""Log-mel features of bird calls, cut from field recordings.

Recorders run at 44.1 kHz; the classifier further down the line was trained at
16 kHz. Calls have been located beforehand and differ in length.
"""
import argparse
import functools
import math

import torch
from torch import nn

RECORDER_RATE = 44100
MODEL_RATE = 16000


@functools.lru_cache(maxsize=None)
def sinc_kernel(orig, new, zeros, rolloff):
    gcd = math.gcd(orig, new)
    orig, new = orig // gcd, new // gcd
    base = min(orig, new) * rolloff
    width = math.ceil(zeros * orig / base)

    idx = torch.arange(-width, width + orig, dtype=torch.float64)[None] / orig
    phase = torch.arange(0, -new, -1, dtype=torch.float64)[:, None] / new
    t = ((phase + idx) * base).clamp(-zeros, zeros)
    window = torch.cos(t * math.pi / zeros / 2) ** 2
    t = t * math.pi
    kernel = torch.where(t == 0, torch.ones_like(t), torch.sin(t) / t)
    return orig, new, width, (kernel * window * (base / orig)).float()[:, None]


def resample(wave, orig, new, zeros=64, rolloff=0.95):
    """Band-limited resampling with a Hann-windowed sinc (polyphase form).

    wave: (samples,) at rate orig; returns (samples * new / orig,).
    """
    orig, new, width, kernel = sinc_kernel(orig, new, zeros, rolloff)
    length = wave.shape[0]
    padded = nn.functional.pad(wave, (width, width + orig))
    out = nn.functional.conv1d(padded[None, None], kernel, stride=orig)
    out = out[0].t().reshape(-1)
    return out[: math.ceil(new * length / orig)]


def mel_bank(rate, n_fft, n_mels, f_min=150.0):
    to_mel = lambda f: 2595 * math.log10(1 + f / 700)
    mels = torch.linspace(to_mel(f_min), to_mel(rate / 2), n_mels + 2)
    edges = 700 * (10 ** (mels / 2595) - 1)
    freqs = torch.linspace(0, rate / 2, n_fft // 2 + 1)
    rise = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self, rate=MODEL_RATE, n_fft=1024, hop=160, n_mels=96):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", mel_bank(rate, n_fft, n_mels))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        return (self.bank @ power + 1e-6).log()


def recordings(seed=2, calls=6):
    """Endless stream of (wave, [(start, stop), ...]) as the recorders deliver them."""
    gen = torch.Generator().manual_seed(seed)
    noise = torch.randn(20 * RECORDER_RATE, generator=gen) * 0.02
    time = torch.arange(4 * RECORDER_RATE) / RECORDER_RATE
    while True:
        start = int(torch.randint(0, len(noise) // 2, (1,), generator=gen))
        wave = noise[start:start + 10 * RECORDER_RATE].clone()
        spans = []
        for c in range(calls):
            dur = int((0.8 + 0.6 * torch.rand(1, generator=gen)) * RECORDER_RATE)
            at = int(c * 1.6 * RECORDER_RATE)
            f0, sweep = (torch.rand(2, generator=gen) * torch.tensor([4000.0, 1500.0])).tolist()
            t = time[:dur]
            chirp = torch.sin(2 * math.pi * (1500 + f0 + sweep * t) * t)
            wave[at:at + dur] += chirp * torch.hann_window(dur)
            spans.append((at, at + dur))
        yield wave, spans


def call_features(stream, extractor):
    """One (calls, 2 * n_mels) matrix per recording: mean and deviation per band."""
    for wave, spans in stream:
        rows = []
        for begin, end in spans:
            call = resample(wave[begin:end], RECORDER_RATE, MODEL_RATE)
            mel = extractor(call)
            rows.append(torch.cat([mel.mean(dim=1), mel.std(dim=1)]))
        yield torch.stack(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    extractor = LogMel().eval()
    total, count = torch.zeros(192), 0
    with torch.inference_mode():
        for _, rows in zip(range(args.steps), call_features(recordings(), extractor)):
            total += rows.sum(dim=0)
            count += len(rows)
    mean = total / count
    print(f"recordings {args.steps}  calls {count}  mean level {mean[:96].mean():.4f}  spread {mean[96:].mean():.4f}")


if __name__ == "__main__":
    main()
