"""Counting particles: a small network regresses the number of plankton in random crops of large frames."""
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(2)
torch.manual_seed(81)

FRAMES = 48
FRAME = 288
CROP = 80
BATCH = 16
STEPS = 80
WARMUP = 4
MEAN = np.array([0.42, 0.45, 0.50], dtype=np.float32)
STD = np.array([0.22, 0.21, 0.20], dtype=np.float32)


def record_frames(folder):
    """Synthetic microscope frames with bright blobs, kept on disk as the camera wrote them."""
    rng = np.random.default_rng(23)
    frames = rng.integers(40, 90, (FRAMES, FRAME, FRAME, 3), dtype=np.uint8)
    centers = []
    yy, xx = np.mgrid[-5:6, -5:6]
    blob = (150 * np.exp(-(yy ** 2 + xx ** 2) / 8.0)).astype(np.uint8)[..., None]
    for frame in frames:
        spots = rng.integers(6, FRAME - 6, (rng.integers(30, 160), 2))
        for y, x in spots:
            patch = frame[y - 5:y + 6, x - 5:x + 6]
            np.maximum(patch, blob + 60, out=patch)
        centers.append(spots)
    path = os.path.join(folder, "frames.npy")
    np.save(path, frames)
    return path, centers


class PlanktonCrops(Dataset):
    def __init__(self, path, centers, length):
        self.frames = np.load(path, mmap_mode="r")
        self.centers = centers
        self.length = length

    def __len__(self):
        return self.length

    def illuminate(self, image, gamma, tint):
        """Lamp and camera variation, then the usual standardisation."""
        image = image.astype(np.float32) / 255.0
        image = np.power(image, np.float32(gamma)) * tint
        return (np.clip(image, 0.0, 1.0) - MEAN) / STD

    def __getitem__(self, index):
        rng = np.random.default_rng(1000 + index)
        which = rng.integers(FRAMES)
        gamma = rng.uniform(0.7, 1.4)
        tint = rng.uniform(0.9, 1.1, 3).astype(np.float32)
        top, left = rng.integers(0, FRAME - CROP, 2)
        image = self.frames[which][top:top + CROP, left:left + CROP]
        image = self.illuminate(image, gamma, tint)
        inside = self.centers[which] - (top, left)
        count = np.all((inside >= 0) & (inside < CROP), axis=1).sum()
        if rng.random() < 0.5:
            image = image[:, ::-1]
        chw = np.ascontiguousarray(image.transpose(2, 0, 1))
        return torch.from_numpy(chw), torch.tensor(float(count))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 48, 3, 1, 1), nn.ReLU(),
        )
        self.density = nn.Conv2d(48, 1, 1)

    def forward(self, x):
        return F.softplus(self.density(self.body(x))).mean((1, 2, 3)) * 10.0


def main():
    with tempfile.TemporaryDirectory() as folder:
        data = PlanktonCrops(*record_frames(folder), length=STEPS * BATCH)
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))
        net = Counter()
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        times, losses = [], []
        start = time.perf_counter()
        for step, (image, count) in enumerate(loader):
            loss = F.smooth_l1_loss(net(image), count)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            now = time.perf_counter()
            times.append(now - start)
            start = now
            if step % 20 == 0:
                print(f"step {step:3d}  loss {losses[-1]:.4f}")
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print(f"final loss {sum(losses[-10:]) / 10:.5f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
