"""Person re-identification: embed the pedestrians of a camera frame and match them to a gallery."""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class SEBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(c, c // 4), nn.Linear(c // 4, c)

    def forward(self, x):
        s = torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3))))))
        return x * s[:, :, None, None]


class Unit(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Conv2d(cin, cout, 1, bias=False)
        self.na = nn.BatchNorm2d(cout)
        self.b = nn.Conv2d(cout, cout, 3, stride, 1, groups=cout, bias=False)
        self.nb = nn.BatchNorm2d(cout)
        self.c = nn.Conv2d(cout, cout, 1, bias=False)
        self.nc = nn.BatchNorm2d(cout)
        self.se = SEBlock(cout)
        self.keep = stride == 1 and cin == cout

    def forward(self, x):
        h = F.relu(self.na(self.a(x)))
        h = F.relu(self.nb(self.b(h)))
        h = self.se(self.nc(self.c(h)))
        return h + x if self.keep else h


class ReIDNet(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        plan = [(16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.units = nn.Sequential(*[Unit(*p) for p in plan])
        self.fc = nn.Linear(128, dim)

    def forward(self, x):
        return F.normalize(self.fc(self.units(self.stem(x)).mean((2, 3))), dim=1)


def frames(identities=40, people=24, seed=31):
    """Each video frame yields a list of person crops (3, 96, 48) and their true identities."""
    g = torch.Generator().manual_seed(seed)
    base = torch.rand(identities, 3, 12, 6, generator=g)
    base = F.interpolate(base, size=(96, 48), mode="nearest")
    while True:
        ids = torch.randint(0, identities, (people,), generator=g).tolist()
        yield [base[i] + 0.1 * torch.randn(3, 96, 48, generator=g) for i in ids], ids


class Matcher:
    def __init__(self, model):
        self.model = model.eval()
        self.gallery, self.names = None, None

    @torch.inference_mode()
    def embed(self, crops):
        batch = (torch.stack(crops) - 0.5) / 0.25
        return self.model(batch)

    def enroll(self, crops, names):
        self.gallery, self.names = self.embed(crops), names

    def match(self, crops):
        score, index = (self.embed(crops) @ self.gallery.T).max(dim=1)
        return [self.names[i] for i in index.tolist()], score.sum().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    stream = frames()
    matcher = Matcher(ReIDNet())
    matcher.enroll(*next(stream))

    times, hits, scores = [], 0, 0.0
    start = time.perf_counter()
    while len(times) < args.steps or (args.seconds and time.perf_counter() - start < args.seconds):
        t0 = time.perf_counter()
        crops, ids = next(stream)
        found, score = matcher.match(crops)
        hits += sum(a == b for a, b in zip(found, ids))
        scores += score
        times.append(time.perf_counter() - t0)
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return scores


if __name__ == "__main__":
    main()
