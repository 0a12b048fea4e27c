"""Speaker verification: a TDNN embedding trained with an additive-margin softmax."""
import argparse
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from augment import Augment, make_rooms, mel_filters

SAMPLE_RATE = 16_000
SPEAKERS = 40
N_FFT = 512
HOP = 160
N_MELS = 64


def make_utterances(per_speaker, seconds, generator):
    """Voiced sounds: harmonics of a speaker-specific pitch under a formant envelope."""
    t = torch.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    waves, labels = [], []
    for speaker in range(SPEAKERS):
        pitch = 90 + 140 * torch.rand(1, generator=generator)
        envelope = torch.rand(12, generator=generator)
        for _ in range(per_speaker):
            drift = 1 + 0.05 * torch.randn(1, generator=generator)
            phase = 2 * math.pi * pitch * drift * t
            harmonics = torch.arange(1, 13).unsqueeze(1)
            wave = (envelope.unsqueeze(1) * torch.sin(harmonics * phase)).sum(0)
            waves.append(wave / wave.abs().max())
            labels.append(speaker)
    return torch.stack(waves), torch.tensor(labels)


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))
        self.register_buffer("filters", mel_filters(SAMPLE_RATE, N_FFT, N_MELS))

    def forward(self, waves):
        spec = torch.stft(waves, N_FFT, HOP, window=self.window, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        mel = (power.transpose(1, 2) @ self.filters + 1e-6).log().transpose(1, 2)
        return mel - mel.mean(dim=2, keepdim=True)


class SpeakerNet(nn.Module):
    def __init__(self, channels=256, embedding=128):
        super().__init__()
        layers, c_in = [], N_MELS
        for kernel, dilation in ((5, 1), (3, 2), (3, 3), (1, 1)):
            layers += [
                nn.Conv1d(c_in, channels, kernel, dilation=dilation),
                nn.ReLU(inplace=True),
                nn.BatchNorm1d(channels),
            ]
            c_in = channels
        self.frames = nn.Sequential(*layers)
        self.embed = nn.Linear(2 * channels, embedding)

    def forward(self, mel):
        h = self.frames(mel)
        std, mean = torch.std_mean(h, dim=2)
        return F.normalize(self.embed(torch.cat([mean, std], dim=1)), dim=1)


class MarginSoftmax(nn.Module):
    def __init__(self, embedding, speakers, margin=0.2, scale=20.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(speakers, embedding))
        self.margin, self.scale = margin, scale

    def forward(self, emb, labels):
        cosine = emb @ F.normalize(self.weight, dim=1).T
        shift = self.margin * F.one_hot(labels, cosine.shape[1])
        return F.cross_entropy(self.scale * (cosine - shift), labels), cosine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    waves, labels = make_utterances(6, 2.0, generator)
    rooms = make_rooms(64, 4000, SAMPLE_RATE, generator)
    augment = Augment(rooms, crop=24_000, generator=generator)

    features = LogMel()
    model = SpeakerNet()
    head = MarginSoftmax(128, SPEAKERS)
    params = list(model.parameters()) + list(head.parameters())
    optimizer = torch.optim.SGD(params, lr=args.lr, momentum=0.9, weight_decay=1e-4)

    times = []
    for step in range(args.steps):
        start = time.perf_counter()
        idx = torch.randint(len(waves), (args.batch_size,), generator=generator)
        with torch.no_grad():
            mel = features(augment(waves[idx]))
        loss, cosine = head(model(mel), labels[idx])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 10 == 0 or step == args.steps - 1:
            accuracy = (cosine.argmax(1) == labels[idx]).float().mean().item()
            print(f"step {step:3d}  loss {loss.item():.4f}  accuracy {accuracy:.3f}")

    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
