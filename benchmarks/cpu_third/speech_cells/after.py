"""Utterance-level emotion recognition from filterbank frames."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class FrameEncoder(nn.Module):
    """Two strided convolutions over time, as the front of the recogniser."""

    def __init__(self, mels, width):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 5, padding=2)
        self.conv2 = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.norm = nn.LayerNorm(width)

    def forward(self, frames):
        x = F.relu(self.conv1(frames.transpose(1, 2)))
        x = F.relu(self.conv2(x))
        return self.norm(x.transpose(1, 2))


class UtteranceRNN(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True)

    def forward(self, x):
        outputs, _ = self.lstm(x)
        return outputs


class AttentivePool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x):
        weight = self.score(x).softmax(dim=1)
        return (weight * x).sum(1)


class EmotionNet(nn.Module):
    def __init__(self, mels=40, width=96, hidden=96, emotions=5):
        super().__init__()
        self.frames = FrameEncoder(mels, width)
        self.rnn = UtteranceRNN(width, hidden)
        self.pool = AttentivePool(hidden)
        self.out = nn.Linear(hidden, emotions)

    def forward(self, x):
        return self.out(self.pool(self.rnn(self.frames(x))))


class Utterances:
    def __init__(self, batch, frames=160, mels=40, emotions=5, seed=21):
        self.g = torch.Generator().manual_seed(seed)
        self.batch, self.frames, self.mels, self.emotions = batch, frames, mels, emotions
        self.contours = torch.randn(emotions, mels, generator=self.g)

    def draw(self):
        y = torch.randint(self.emotions, (self.batch,), generator=self.g)
        t = torch.arange(self.frames) / self.frames
        envelope = torch.sin(6.28 * t[None] * (1 + y[:, None].float()))
        x = envelope[..., None] * self.contours[y][:, None]
        return x + torch.randn(x.shape, generator=self.g), y


class Meter:
    def __init__(self, skip=5):
        self.skip, self.times = skip, []

    def __enter__(self):
        self.t = time.perf_counter()

    def __exit__(self, *exc):
        self.times.append(time.perf_counter() - self.t)

    @property
    def mean_ms(self):
        kept = self.times[self.skip:] or self.times
        return 1000 * sum(kept) / len(kept)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(20)
    model = EmotionNet()
    data = Utterances(args.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    meter = Meter()
    for step in range(args.steps):
        with meter:
            x, y = data.draw()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if step % 10 == 0:
            print(f"[{step}] loss={loss.item():.5f}")
    print(f"mean step {meter.mean_ms:.2f} ms")
