"""Waveform augmentation: random crops, room reverberation and background noise."""
import math

import torch
import torch.nn.functional as F


def make_rooms(count, length, sample_rate, generator):
    """Synthetic room impulse responses: a direct path and an exponential tail."""
    t = torch.arange(length) / sample_rate
    decay = 0.02 + 0.05 * torch.rand(count, 1, generator=generator)
    tail = torch.randn(count, length, generator=generator) * torch.exp(-t / decay)
    tail[:, 0] = 4.0
    return tail / tail.norm(dim=1, keepdim=True)


class Augment:
    def __init__(self, rooms, crop, generator, snr_db=(5.0, 20.0)):
        self.rooms = rooms
        self.crop = crop
        self.generator = generator
        self.snr_db = snr_db

    def random_crop(self, waves):
        starts = torch.randint(waves.shape[1] - self.crop, (len(waves), 1), generator=self.generator)
        return waves.gather(1, starts + torch.arange(self.crop))

    def reverberate(self, waves):
        """Convolve every utterance with a room of its own, keeping its length."""
        choice = torch.randint(len(self.rooms), (len(waves),), generator=self.generator)
        rooms = self.rooms[choice]
        taps = rooms.shape[1]
        padded = F.pad(waves, (taps - 1, 0))
        wet = F.conv1d(padded.unsqueeze(0), rooms.flip(1).unsqueeze(1), groups=len(waves))
        return wet.squeeze(0)

    def add_noise(self, waves):
        low, high = self.snr_db
        snr = low + (high - low) * torch.rand(len(waves), 1, generator=self.generator)
        noise = torch.randn(waves.shape, generator=self.generator)
        power = waves.square().mean(dim=1, keepdim=True)
        return waves + noise * (power * 10 ** (-snr / 10)).sqrt()

    def __call__(self, waves):
        return self.add_noise(self.reverberate(self.random_crop(waves)))


def mel_filters(sample_rate, n_fft, n_mels):
    """Triangular filters on the mel scale, (n_fft // 2 + 1, n_mels)."""
    top = 2595 * math.log10(1 + sample_rate / 2 / 700)
    hz = 700 * (10 ** (torch.linspace(0, top, n_mels + 2) / 2595) - 1)
    freqs = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1).unsqueeze(1)
    up = (freqs - hz[:-2]) / (hz[1:-1] - hz[:-2])
    down = (hz[2:] - freqs) / (hz[2:] - hz[1:-1])
    return torch.minimum(up, down).clamp(min=0)
