"""The emotion of an utterance from its log-mel spectrogram: convolutions and a small Transformer."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("emotion")

EMOTIONS = ("neutral", "happy", "sad", "angry", "afraid")
MELS = 64


class Utterances:
    """Spectrograms with a pitch contour that depends on the emotion."""

    def __init__(self, seed=0):
        self.gen = torch.Generator().manual_seed(seed)

    def batch(self, size, frames=160):
        label = torch.randint(len(EMOTIONS), (size,), generator=self.gen)
        time = torch.linspace(0, 1, frames)
        rate = 1.0 + label.float().unsqueeze(1)
        pitch = 30 + 8 * torch.sin(2 * torch.pi * rate * time + torch.rand(size, 1, generator=self.gen))
        mel = torch.arange(MELS).view(1, MELS, 1)
        energy = torch.exp(-0.1 * (mel - pitch.unsqueeze(1)) ** 2)
        noise = torch.randn(size, MELS, frames, generator=self.gen)
        return (energy + 0.4 * noise).unsqueeze(1), label


class Stem(nn.Module):
    def __init__(self, dim, width=16):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.out = nn.Linear(width * MELS // 4, dim)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        log.debug(f"stem: {tuple(x.shape)}")
        return self.out(x.permute(0, 3, 1, 2).flatten(2))


class Encoder(nn.Module):
    """A layer with convolution, attention and feed-forward parts."""

    def __init__(self, name, dim, heads=4):
        super().__init__()
        self.name, self.heads = name, heads
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, 9, padding=4, groups=dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def attention(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.conv(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        log.debug("%s after convolution: %s", self.name, x)
        x = x + self.attention(self.norm2(x))
        log.debug("%s after attention: %s", self.name, x)
        return x + self.mlp(self.norm3(x))


class EmotionModel(nn.Module):
    def __init__(self, dim=96, depth=4):
        super().__init__()
        self.stem = Stem(dim)
        self.layers = nn.ModuleList(Encoder(f"layer {i}", dim) for i in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, len(EMOTIONS))

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x).mean(dim=1))
        log.debug("logits: %s", logits)
        return logits


class Trainer:
    def __init__(self, model, lr=5e-4, log_every=50):
        self.model, self.log_every = model, log_every
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, foreach=True)
        self.total = torch.zeros(())

    def step(self, number, spectrograms, labels):
        loss = F.cross_entropy(self.model(spectrograms), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.total += loss.detach()
        if number % self.log_every == 0:
            log.info("step %d loss %.4f", number, self.total.item() / number)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--log-level", default="INFO")
    args = parser.parse_args()

    logging.basicConfig(level=args.log_level)
    torch.manual_seed(0)
    utterances, trainer = Utterances(), Trainer(EmotionModel())
    for number in range(1, args.steps + 1):
        trainer.step(number, *utterances.batch(args.batch_size))
    print(f"mean loss {trainer.total.item() / args.steps:.5f}")


if __name__ == "__main__":
    main()
