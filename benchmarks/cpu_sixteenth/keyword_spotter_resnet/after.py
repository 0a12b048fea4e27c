"""Keyword spotting (speech-commands style): 1 s clips of several sampling rates -> log-mel -> small ResNet."""
import argparse
import functools
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

TARGET_SR = 16000
SOURCE_RATES = (44100, 22050, 11025)
WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]


# ---------------------------------------------------------------- signal processing
@functools.lru_cache(maxsize=None)
def sinc_resample_kernel(orig, new, lowpass_filter_width=6, rolloff=0.99):
    gcd = math.gcd(orig, new)
    orig, new = orig // gcd, new // gcd
    base = min(orig, new) * rolloff
    width = math.ceil(lowpass_filter_width * orig / base)
    idx = torch.arange(-width, width + orig, dtype=torch.float64)[None] / orig
    t = torch.arange(0, -new, -1, dtype=torch.float64)[:, None] / new + idx
    t = (t * base).clamp_(-lowpass_filter_width, lowpass_filter_width)
    window = torch.cos(t * math.pi / lowpass_filter_width / 2) ** 2
    t = t * math.pi
    kernel = torch.where(t == 0, torch.ones_like(t), t.sin() / t)
    kernel = kernel * window * (base / orig)
    return kernel[:, None].float(), width, orig, new


def resample(wave, orig_sr, new_sr):
    if orig_sr == new_sr:
        return wave
    kernel, width, orig, new = sinc_resample_kernel(orig_sr, new_sr)
    n = wave.shape[-1]
    padded = F.pad(wave[None, None], (width, width + orig))
    out = F.conv1d(padded, kernel, stride=orig)
    out = out.transpose(1, 2).reshape(-1)
    return out[: math.ceil(new * n / orig)]


def mel_filterbank(n_mels, n_fft, sr):
    def to_mel(f):
        return 2595.0 * math.log10(1.0 + f / 700.0)
    mels = torch.linspace(to_mel(20.0), to_mel(sr / 2), n_mels + 2)
    hz = 700.0 * (10 ** (mels / 2595.0) - 1.0)
    freqs = torch.linspace(0, sr / 2, n_fft // 2 + 1)
    diff = hz[1:] - hz[:-1]
    slopes = hz[None] - freqs[:, None]
    return torch.clamp(torch.minimum(-slopes[:, :-2] / diff[:-1], slopes[:, 2:] / diff[1:]), min=0)


class LogMel(nn.Module):
    def __init__(self, n_mels=40, n_fft=512, hop=160):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("fb", mel_filterbank(n_mels, n_fft, TARGET_SR))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.real ** 2 + spec.imag ** 2
        return torch.log(power.transpose(1, 2) @ self.fb + 1e-6).transpose(1, 2)


# ---------------------------------------------------------------- data
class CommandClips(Dataset):
    """Clips as recorded: int16 samples with the recorder's own rate."""

    def __init__(self, n, seed, train=True):
        rng = np.random.default_rng(seed)
        self.train = train
        self.clips = []
        for _ in range(n):
            label = int(rng.integers(len(WORDS)))
            sr = int(rng.choice(SOURCE_RATES))
            t = np.arange(sr) / sr
            f0 = 180 + 90 * label + rng.normal() * 12
            sig = np.sin(2 * np.pi * (f0 * t + 60 * (label % 3) * t ** 2)) * np.exp(-((t - 0.5) / 0.2) ** 2)
            sig = 0.4 * sig + 0.08 * rng.standard_normal(sr)
            self.clips.append(((np.clip(sig, -1, 1) * 32767).astype(np.int16), sr, label))

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        pcm, sr, label = self.clips[i]
        wave = torch.from_numpy(pcm).float() / 32768.0
        wave = resample(wave, sr, TARGET_SR)
        wave = F.pad(wave, (0, max(0, TARGET_SR - wave.numel())))[:TARGET_SR]
        if self.train:
            shift = int(torch.randint(-1600, 1600, (1,)))
            wave = torch.roll(wave, shift) * (0.7 + 0.6 * torch.rand(1))
            wave = wave + 0.01 * torch.randn(TARGET_SR)
        return wave, label


def spec_augment(mel, max_t=20, max_f=8):
    b, f, t = mel.shape
    t0 = torch.randint(0, t - max_t, (b, 1)); tw = torch.randint(0, max_t, (b, 1))
    f0 = torch.randint(0, f - max_f, (b, 1)); fw = torch.randint(0, max_f, (b, 1))
    ti, fi = torch.arange(t)[None], torch.arange(f)[None]
    tmask = (ti >= t0) & (ti < t0 + tw)
    fmask = (fi >= f0) & (fi < f0 + fw)
    return mel.masked_fill(tmask[:, None, :] | fmask[:, :, None], 0.0)


# ---------------------------------------------------------------- model
class ResBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.c1 = nn.Conv2d(c, c, 3, padding=dilation, dilation=dilation, bias=False)
        self.c2 = nn.Conv2d(c, c, 3, padding=dilation, dilation=dilation, bias=False)
        self.b1, self.b2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(x + self.b2(self.c2(y)))


class Spotter(nn.Module):
    def __init__(self, n_classes, c=14):
        super().__init__()
        self.frontend = LogMel()
        self.norm = nn.BatchNorm1d(40)
        self.conv0 = nn.Conv2d(1, c, 3, stride=2, padding=1, bias=False)
        self.blocks = nn.Sequential(*[ResBlock(c, d) for d in (1, 2)])
        self.fc = nn.Linear(c, n_classes)

    def forward(self, wave):
        mel = self.norm(self.frontend(wave))
        if self.training:
            mel = spec_augment(mel)
        x = F.relu(self.conv0(mel[:, None]))
        return self.fc(self.blocks(x).mean((2, 3)))


def accuracy(model, loader):
    model.eval()
    with torch.inference_mode():
        pairs = [(model(w).argmax(1) == y).float().mean().item() for w, y in loader]
    model.train()
    return sum(pairs) / len(pairs)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--clips", type=int, default=512)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    torch.manual_seed(7)

    train = DataLoader(CommandClips(args.clips, 0), args.batch, shuffle=True, drop_last=True, num_workers=2,
                       persistent_workers=True)
    dev = DataLoader(CommandClips(64, 1, train=False), args.batch)
    model = Spotter(len(WORDS))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)

    for epoch in range(args.epochs):
        tic, losses = time.perf_counter(), []
        for wave, y in train:
            loss = F.cross_entropy(model(wave), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        sched.step()
        took = time.perf_counter() - tic
        print(f"[epoch {epoch}] loss={np.mean(losses):.4f} {took / len(losses) * 1e3:.0f} ms/it", flush=True)
    print(f"dev accuracy {accuracy(model, dev):.3f}")


if __name__ == "__main__":
    main()
