"""Registration of brain volumes: a small U-Net predicts the displacement that lays one volume over another."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 32


class Brains:
    """Volumes of nested ellipsoids, each with its own proportions, position and brightness."""

    def __init__(self, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        axis = torch.linspace(-1, 1, SIZE)
        self.grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"))

    def volume(self):
        image = torch.zeros(SIZE, SIZE, SIZE)
        center = 0.1 * torch.randn(3, 1, 1, 1, generator=self.gen)
        for radius, level in ((0.8, 0.4), (0.65, 0.3), (0.35, -0.4), (0.15, 0.5)):
            axes = radius * (1 + 0.15 * torch.randn(3, 1, 1, 1, generator=self.gen))
            inside = 1 - ((self.grid - center) / axes).square().sum(dim=0)
            image += level * torch.sigmoid(15 * inside)
        gain = 0.7 + 0.6 * torch.rand((), generator=self.gen)
        return gain * image + 0.03 * torch.randn(SIZE, SIZE, SIZE, generator=self.gen)

    def pair(self):
        return self.volume()[None, None], self.volume()[None, None]


class Down(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv3d(cin, cout, 3, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv3d(cout, cout, 3, padding=1),
            nn.LeakyReLU(0.2),
        )


class DisplacementNet(nn.Module):
    """The displacement is predicted at half the resolution and enlarged."""

    def __init__(self, width=16):
        super().__init__()
        self.down1, self.down2 = Down(2, width), Down(width, 2 * width)
        self.up = nn.Sequential(nn.Conv3d(3 * width, width, 3, padding=1), nn.LeakyReLU(0.2))
        self.flow = nn.Conv3d(width, 3, 3, padding=1)
        nn.init.normal_(self.flow.weight, std=1e-3)
        nn.init.zeros_(self.flow.bias)

    def forward(self, moving, fixed):
        a = self.down1(torch.cat([moving, fixed], dim=1))
        b = self.down2(a)
        c = self.up(torch.cat([a, F.interpolate(b, scale_factor=2)], dim=1))
        return F.interpolate(self.flow(c), scale_factor=2, mode="trilinear", align_corners=False)


class Warp(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer(
            "identity", F.affine_grid(torch.eye(3, 4)[None], (1, 1, SIZE, SIZE, SIZE), align_corners=False)
        )

    def forward(self, image, flow):
        return F.grid_sample(
            image, self.identity + flow.permute(0, 2, 3, 4, 1), padding_mode="border", align_corners=False
        )


class LocalCorrelation(nn.Module):
    """The squared correlation of the two volumes within small cubes, which does not mind their brightness."""

    def __init__(self, window=5):
        super().__init__()
        self.window = window
        self.register_buffer("ones", torch.ones(window))

    def box(self, x):
        """The sum over the cube about each voxel."""
        pad = self.window // 2
        x = F.conv3d(x, self.ones.view(1, 1, -1, 1, 1), padding=(pad, 0, 0))
        x = F.conv3d(x, self.ones.view(1, 1, 1, -1, 1), padding=(0, pad, 0))
        return F.conv3d(x, self.ones.view(1, 1, 1, 1, -1), padding=(0, 0, pad))

    def forward(self, a, b):
        count = self.window**3
        sum_a, sum_b = self.box(a), self.box(b)
        cross = self.box(a * b) - sum_a * sum_b / count
        var_a = self.box(a * a) - sum_a * sum_a / count
        var_b = self.box(b * b) - sum_b * sum_b / count
        return 1 - (cross * cross / (var_a * var_b + 1e-2)).mean()


def roughness(flow):
    return sum(flow.diff(dim=d).square().mean() for d in (2, 3, 4))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--smooth", type=float, default=20.0)
    args = parser.parse_args()

    torch.manual_seed(0)
    brains = Brains()
    net, warp, similarity = DisplacementNet(), Warp(), LocalCorrelation()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    total = torch.zeros(())
    for _ in range(args.steps):
        moving, fixed = brains.pair()
        flow = net(moving, fixed)
        loss = similarity(fixed, warp(moving, flow)) + args.smooth * roughness(flow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"mean loss {total.item() / args.steps:.4f}")


if __name__ == "__main__":
    main()
