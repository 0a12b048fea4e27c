"""Low-dose CT denoising: residual CNN on random patches, channels-last."""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class CTPatches(Dataset):
    """Slices are built once; a batch of patches is cut and noised with a few tensor operations."""

    def __init__(self, slices=24, size=256, patch=64, batch=16, length=400, seed=23):
        g = torch.Generator().manual_seed(seed)
        coarse = torch.rand(slices, 1, 16, 16, generator=g)
        self.clean = F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False).squeeze(1)
        self.patch, self.batch, self.length = patch, batch, length
        self.views = self.clean.unfold(1, patch, 1).unfold(2, patch, 1)

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(1000 + i)
        s = torch.randint(0, self.views.size(0), (self.batch,), generator=g)
        y = torch.randint(0, self.views.size(1), (self.batch,), generator=g)
        x = torch.randint(0, self.views.size(2), (self.batch,), generator=g)
        clean = self.views[s, y, x].unsqueeze(1)
        noisy = clean + 0.08 * torch.randn(clean.shape, generator=g)
        return noisy, clean


class DnCNN(nn.Module):
    def __init__(self, width=32, depth=5):
        super().__init__()
        layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        layers.append(nn.Conv2d(width, 1, 3, padding=1))
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return x - self.body(x)


class Trainer:
    def __init__(self, model, loader):
        self.model = model.to(memory_format=torch.channels_last)
        self.loader = loader
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
        self.times = []
        self.loss_sum = torch.zeros(())

    def step(self, noisy, clean):
        loss = F.l1_loss(self.model(noisy), clean)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.loss_sum += loss.detach()

    def fit(self, steps, seconds):
        start = time.perf_counter()
        while True:
            t0 = time.perf_counter()
            for noisy, clean in self.loader:
                self.step(noisy.contiguous(memory_format=torch.channels_last), clean)
                now = time.perf_counter()
                self.times.append(now - t0)
                if len(self.times) >= steps and now - start >= (seconds or 0):
                    return
                t0 = time.perf_counter()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(CTPatches(), batch_size=None, shuffle=True)
    trainer = Trainer(DnCNN(), loader)
    trainer.fit(args.steps, args.seconds)
    print(f"step_ms {statistics.median(trainer.times[5:]) * 1000:.3f}")
    return trainer.loss_sum.item()


if __name__ == "__main__":
    main()
