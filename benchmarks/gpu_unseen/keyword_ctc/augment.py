"""Waveform augmentation on the training device."""
import random

import torch
import torch.nn.functional as F
import torchaudio.functional as AF


class SpeedPerturb:
    """Play an utterance faster or slower, in the spirit of the Kaldi recipes."""

    def __init__(self, sample_rate, low=0.9, high=1.1, prob=0.5, seed=0):
        self.sample_rate = sample_rate
        self.low = low
        self.high = high
        self.prob = prob
        self.rng = random.Random(seed)

    def __call__(self, wave):
        if self.rng.random() >= self.prob:
            return wave
        factor = self.rng.uniform(self.low, self.high)
        faster, _ = AF.speed(wave, self.sample_rate, factor)
        return faster


class AddNoise:
    def __init__(self, snr_db=20.0):
        self.scale = 10 ** (-snr_db / 20)

    def __call__(self, wave):
        level = wave.pow(2).mean().sqrt()
        return wave + torch.randn_like(wave) * level * self.scale


class Augment:
    def __init__(self, transforms, out_len):
        self.transforms = transforms
        self.out_len = out_len

    @torch.no_grad()
    def __call__(self, waves):
        out = []
        for wave in waves:
            for transform in self.transforms:
                wave = transform(wave)
            wave = wave[: self.out_len]
            out.append(F.pad(wave, (0, self.out_len - wave.shape[0])))
        batch = torch.stack(out)
        mean = batch.mean(dim=1, keepdim=True)
        std = batch.std(dim=1, keepdim=True)
        return (batch - mean) / (std + 1e-5)
