"""Learn to compress textures; the loss compares features of a fixed network."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

SIDE = 48


class FeatureNet(nn.Module):
    """Fixed convolutional features at two scales, used only to compare images."""

    def __init__(self, seed):
        super().__init__()
        self.stages = nn.ModuleList([
            nn.Sequential(
                nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(inplace=True),
                nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(inplace=True),
            ),
            nn.Sequential(
                nn.AvgPool2d(2),
                nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(inplace=True),
                nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(inplace=True),
            ),
        ])
        rng = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.orthogonal_(module.weight, gain=2 ** 0.5, generator=rng)
                nn.init.zeros_(module.bias)
        self.eval()

    def forward(self, image):
        outputs = []
        x = image
        for stage in self.stages:
            x = stage(x)
            outputs.append(x)
        return outputs


class PerceptualLoss(nn.Module):
    def __init__(self, features, pixel_weight=0.5):
        super().__init__()
        self.features = features
        self.pixel_weight = pixel_weight

    def forward(self, image, reference):
        with torch.no_grad():
            wanted = self.features(reference)
        found = self.features(image)
        loss = self.pixel_weight * F.l1_loss(image, reference)
        for a, b in zip(found, wanted):
            loss = loss + F.mse_loss(a, b)
        return loss


class TextureCodec(nn.Module):
    def __init__(self, width=24, code=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=2, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(2 * width, code, 4, stride=4),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(code, 2 * width, 4, stride=4), nn.ReLU(inplace=True),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.ReLU(inplace=True),
            nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1), nn.Sigmoid(),
        )

    def forward(self, image):
        return self.decoder(self.encoder(image))


class Textures:
    """Sums of a few coloured plane waves."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        axis = torch.linspace(0, 1, SIDE)
        self.grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).view(-1, 2)

    def batch(self, size, waves=4):
        direction = torch.randn(size, 2, waves, generator=self.rng) * 25
        phase = torch.rand(size, 1, waves, generator=self.rng) * 6.28
        colour = torch.randn(size, waves, 3, generator=self.rng)
        value = torch.sin(self.grid @ direction + phase) @ colour
        return torch.sigmoid(value).transpose(1, 2).reshape(size, 3, SIDE, SIDE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(31)
    textures = Textures(seed=12)
    codec = TextureCodec()
    features = FeatureNet(seed=77).requires_grad_(False)
    criterion = PerceptualLoss(features)
    optimizer = torch.optim.Adam(codec.parameters(), lr=1e-3)
    loss = None
    for _ in range(args.steps):
        reference = textures.batch(args.batch)
        loss = criterion(codec(reference), reference)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"final loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
