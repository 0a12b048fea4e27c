"""Joint segmentation and depth on street scenes: one shared encoder, two decoders."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

HEIGHT, WIDTH = 96, 160
N_CLASSES = 8


class StreetScenes:
    """Procedural scenes: a road plane, a skyline and a few boxes at known depth."""

    def __init__(self, n=96, seed=13):
        g = torch.Generator().manual_seed(seed)
        rows = torch.linspace(0, 1, HEIGHT).view(HEIGHT, 1).expand(HEIGHT, WIDTH)
        images, masks, depths = [], [], []
        for _ in range(n):
            horizon = 0.35 + 0.2 * torch.rand(1, generator=g).item()
            mask = (rows > horizon).long()
            depth = 1.0 / (rows - horizon).clamp(min=0.04).mul(12.0).add(0.2)
            for _ in range(6):
                c, y, x, h, w = (
                    int(torch.randint(lo, hi, (1,), generator=g))
                    for lo, hi in ((2, N_CLASSES), (20, 70), (0, 140), (8, 26), (8, 40))
                )
                mask[y : y + h, x : x + w] = c
                depth[y : y + h, x : x + w] = 0.3 + 0.1 * c
            palette = torch.rand(N_CLASSES, 3, generator=g)
            image = palette[mask].permute(2, 0, 1) + 0.1 * torch.randn(3, HEIGHT, WIDTH, generator=g)
            images.append(image)
            masks.append(mask)
            depths.append(depth)
        self.images = torch.stack(images).contiguous(memory_format=torch.channels_last)
        self.masks = torch.stack(masks)
        self.depths = torch.stack(depths)
        self.g = g

    def sample(self, batch_size):
        idx = torch.randint(0, len(self.images), (batch_size,), generator=self.g)
        return self.images[idx], self.masks[idx], self.depths[idx]


def conv_block(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Encoder(nn.Sequential):
    def __init__(self):
        super().__init__(
            conv_block(3, 24, stride=2),
            conv_block(24, 48),
            conv_block(48, 64, stride=2),
            conv_block(64, 96),
            conv_block(96, 96),
            conv_block(96, 96),
        )


class Head(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.body = conv_block(cin, 32)
        self.predict = nn.Conv2d(32, cout, 1)

    def forward(self, features):
        out = self.predict(self.body(features))
        return F.interpolate(out, size=(HEIGHT, WIDTH), mode="bilinear", align_corners=False)


class MultiTaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.seg_head = Head(96, N_CLASSES)
        self.depth_head = Head(96, 1)

    def forward(self, images):
        features = self.encoder(images)
        return self.seg_head(features), self.depth_head(features).squeeze(1)


class Trainer:
    def __init__(self, model, data, depth_weight=0.5, batch_size=4):
        self.model = model
        self.data = data
        self.depth_weight = depth_weight
        self.batch_size = batch_size
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9, fused=True)
        self.history = []

    def train_step(self):
        images, masks, depths = self.data.sample(self.batch_size)
        seg, depth = self.model(images)
        seg_loss = F.cross_entropy(seg, masks)
        depth_loss = self.depth_weight * F.l1_loss(depth, depths)

        self.optimizer.zero_grad()
        seg_loss.backward(retain_graph=True)
        depth_loss.backward()
        self.optimizer.step()
        return seg_loss.item(), depth_loss.item()

    def run(self, steps):
        self.model.train()
        for _ in range(steps):
            self.history.append(self.train_step())
        tail = self.history[-10:]
        return [sum(values) / len(tail) for values in zip(*tail)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = StreetScenes()
    model = MultiTaskNet().to(memory_format=torch.channels_last)
    seg_loss, depth_loss = Trainer(model, data).run(args.steps)
    print(f"segmentation loss {seg_loss:.2f}, depth loss {depth_loss:.2f}")


if __name__ == "__main__":
    main()
