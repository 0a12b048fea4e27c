"""Contrastive training of sounds and their captions against a memory of earlier batches."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Log-mel pictures of tones, and captions whose words tell the tones."""

    def __init__(self, count, mels=48, frames=96, words=14, vocabulary=2000, seed=0):
        gen = torch.Generator().manual_seed(seed)
        kind = torch.randint(64, (count,), generator=gen)
        patterns = torch.rand(64, mels, generator=gen)
        self.sounds = patterns[kind].unsqueeze(-1) + 0.3 * torch.randn(count, mels, frames, generator=gen)
        common = torch.randint(64, vocabulary, (count, words), generator=gen)
        common[:, 0] = kind
        self.captions = common

    def __len__(self):
        return len(self.sounds)

    def __getitem__(self, i):
        return self.sounds[i], self.captions[i]


class SoundEncoder(nn.Module):
    def __init__(self, mels=48, width=96, out=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(mels, width, 5, stride=2, padding=2), nn.BatchNorm1d(width), nn.ReLU(inplace=True),
            nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.BatchNorm1d(2 * width), nn.ReLU(inplace=True),
            nn.Conv1d(2 * width, 2 * width, 3, padding=1), nn.BatchNorm1d(2 * width), nn.ReLU(inplace=True),
        )
        self.project = nn.Linear(2 * width, out)

    def forward(self, x):
        return F.normalize(self.project(self.net(x).mean(-1)), dim=-1)


class CaptionEncoder(nn.Module):
    def __init__(self, vocabulary=2000, width=128, out=256):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(0.02 * torch.randn(32, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.project = nn.Linear(width, out)

    def forward(self, x):
        x = self.embed(x) + self.places[:x.size(1)]
        return F.normalize(self.project(self.layers(x).mean(1)), dim=-1)


class Memory(nn.Module):
    """The embeddings of the last batches, as further negatives."""

    def __init__(self, size, width):
        super().__init__()
        self.size = size
        self.next = 0
        self.register_buffer("bank", F.normalize(torch.randn(size, width), dim=-1), persistent=False)

    @torch.no_grad()
    def push(self, rows):
        first = min(len(rows), self.size - self.next)
        self.bank[self.next:self.next + first] = rows[:first]
        self.bank[:len(rows) - first] = rows[first:]
        self.next = (self.next + len(rows)) % self.size


class Contrast(nn.Module):
    def __init__(self, memory_size, width=256):
        super().__init__()
        self.sound, self.caption = SoundEncoder(out=width), CaptionEncoder(out=width)
        self.sounds, self.captions = Memory(memory_size, width), Memory(memory_size, width)
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    @staticmethod
    def one_way(query, keys, bank, scale):
        logits = torch.cat([query @ keys.t(), query @ bank.t()], dim=1) * scale
        return F.cross_entropy(logits, torch.arange(len(query)))

    def forward(self, sound, caption):
        a, t = self.sound(sound), self.caption(caption)
        scale = self.log_scale.exp()
        loss = self.one_way(a, t, self.captions.bank, scale) + self.one_way(t, a, self.sounds.bank, scale)
        return loss / 2, a.detach(), t.detach()

    def remember(self, a, t):
        self.sounds.push(a)
        self.captions.push(t)


def batches(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--memory", type=int, default=40960)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(Clips(960), args.batch_size, shuffle=True, drop_last=True)
    model = Contrast(args.memory)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    mean = torch.zeros(())
    stream = batches(loader)
    for step in range(args.steps):
        sound, caption = next(stream)
        loss, a, t = model(sound, caption)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.remember(a, t)
        mean += (loss.detach() - mean) / (step + 1)
    print(f"mean loss {mean.item():.4f}")


if __name__ == "__main__":
    main()
