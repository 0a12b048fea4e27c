"""People counter above a doorway: frames from a 1080p camera go through a small CNN, one at a time."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FRAME_H, FRAME_W = 1080, 1920
NET_H, NET_W = 270, 480
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Camera:
    """Yields uint8 BGR frames, as a capture device would: a still scene with moving figures."""

    def __init__(self, n_frames, seed=31):
        rng = np.random.default_rng(seed)
        self.n_frames = n_frames
        small = rng.integers(40, 120, size=(FRAME_H // 40, FRAME_W // 40, 3), dtype=np.uint8)
        self.scene = np.kron(small, np.ones((40, 40, 1), dtype=np.uint8))
        self.speed = rng.integers(6, 18, size=5)
        self.lane = rng.integers(100, 800, size=5)
        self.tone = rng.integers(150, 255, size=(5, 3), dtype=np.uint8)

    def __iter__(self):
        buffer = np.empty_like(self.scene)
        for t in range(self.n_frames):
            np.copyto(buffer, self.scene)
            for speed, lane, tone in zip(self.speed, self.lane, self.tone):
                x = int(speed * t * 7) % (FRAME_W - 120)
                buffer[lane : lane + 200, x : x + 110] = tone
            yield buffer


class DepthwiseBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.spatial = nn.Conv2d(cin, cin, 3, stride=stride, padding=1, groups=cin)
        self.mix = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        return F.relu(self.mix(F.relu(self.spatial(x))))


class CounterNet(nn.Module):
    """Density map whose sum is the number of people."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(
            DepthwiseBlock(32, 64, 1),
            DepthwiseBlock(64, 128, 2),
            DepthwiseBlock(128, 128, 1),
            DepthwiseBlock(128, 128, 1),
            DepthwiseBlock(128, 256, 2),
            DepthwiseBlock(256, 256, 1),
        )
        self.density = nn.Conv2d(256, 1, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return F.softplus(self.density(x)).sum(dim=(1, 2, 3)) / 100.0


class Preprocessor:
    def __init__(self):
        self.mean = torch.tensor(MEAN).view(1, 3, 1, 1)
        self.std = torch.tensor(STD).view(1, 3, 1, 1)

    def __call__(self, frame):
        image = torch.from_numpy(frame).permute(2, 0, 1).unsqueeze(0)
        image = F.interpolate(image.float(), size=(NET_H, NET_W), mode="bilinear", align_corners=False)
        image = image / 255.0
        image = image.flip(1)  # BGR -> RGB
        image = (image - self.mean) / self.std
        return image.contiguous(memory_format=torch.channels_last)


class CounterService:
    def __init__(self, model, smoothing=0.8):
        self.model = model.eval().to(memory_format=torch.channels_last)
        self.preprocess = Preprocessor()
        self.smoothing = smoothing
        self.count = None

    def on_frame(self, frame):
        raw = self.model(self.preprocess(frame)).item()
        if self.count is None:
            self.count = raw
        self.count = self.smoothing * self.count + (1 - self.smoothing) * raw
        return self.count

    @torch.inference_mode()
    def watch(self, camera):
        return [self.on_frame(frame) for frame in camera]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    service = CounterService(CounterNet())
    counts = service.watch(Camera(args.steps))
    print(f"{len(counts)} frames, mean count {sum(counts) / len(counts):.4f}")


if __name__ == "__main__":
    main()
