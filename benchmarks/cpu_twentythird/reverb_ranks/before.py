"""Sound tagging on two gloo ranks, with simulated rooms as augmentation."""

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RATE = 16000
TAGS = 10
WORLD = 2


class RoomReverb(nn.Module):
    """Convolves each clip with one of many simulated room responses."""

    def __init__(self, rooms=512, taps=8192):
        super().__init__()
        rng = torch.Generator().manual_seed(17)
        decay = torch.rand(rooms, 1, generator=rng) * 0.25 + 0.05
        time = torch.arange(taps) / RATE
        response = torch.randn(rooms, taps, generator=rng) * torch.exp(-time / decay) * 0.05
        response[:, 0] = 1.0
        self.register_buffer("rooms", response, persistent=False)

    def forward(self, wave, room):
        response = self.rooms[room]
        size = 1 << (wave.shape[1] + response.shape[1] - 1).bit_length()
        spectrum = torch.fft.rfft(wave, size) * torch.fft.rfft(response, size)
        return torch.fft.irfft(spectrum, size)[:, :wave.shape[1]]


class LogMel(nn.Module):
    def __init__(self, bands=40, window=512, hop=160):
        super().__init__()
        self.window, self.hop = window, hop
        self.register_buffer("taper", torch.hann_window(window), persistent=False)
        top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
        edges = 700 * (10 ** (torch.linspace(0, 1, bands + 2) * top / 2595) - 1)
        freq = torch.linspace(0, RATE / 2, window // 2 + 1)
        rise = (freq - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        fall = (edges[2:, None] - freq) / (edges[2:] - edges[1:-1])[:, None]
        self.register_buffer("filters", torch.minimum(rise, fall).clamp(min=0), persistent=False)

    def forward(self, wave):
        frames = torch.stft(wave, self.window, self.hop, window=self.taper, return_complex=True)
        return torch.log(self.filters @ frames.abs().square() + 1e-5)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.reverb = RoomReverb()
        self.features = LogMel()
        self.body = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.ReLU(inplace=True),
            nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.GroupNorm(4, 48), nn.ReLU(inplace=True),
            nn.Conv2d(48, 64, 3, stride=2, padding=1), nn.GroupNorm(4, 64), nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(64, TAGS)

    def forward(self, wave, room):
        with torch.no_grad():
            mel = self.features(self.reverb(wave, room))
        return self.head(self.body(mel[:, None]).mean((2, 3)))


def sound_batch(size, rng):
    """Two-tone clips; the tag fixes the distance between the tones."""
    tags = torch.randint(0, TAGS, (size,), generator=rng)
    base = torch.rand(size, 1, generator=rng) * 400 + 200
    time = torch.arange(RATE) / RATE
    second = base * (1.2 + 0.2 * tags[:, None])
    wave = torch.sin(2 * torch.pi * base * time) + torch.sin(2 * torch.pi * second * time)
    return wave + 0.1 * torch.randn(size, RATE, generator=rng), tags


def worker(rank, store, steps, batch):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    torch.manual_seed(1)
    model = DistributedDataParallel(Tagger())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    rng = torch.Generator().manual_seed(100 + rank)
    loss = torch.zeros(())
    for _ in range(steps):
        wave, tags = sound_batch(batch, rng)
        room = torch.randint(0, 512, (batch,), generator=rng)
        loss = F.cross_entropy(model(wave, room), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"final loss {mean.item() / WORLD:.6f}")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        mp.spawn(worker, args=(store, args.steps, args.batch), nprocs=WORLD)


if __name__ == "__main__":
    main()
