"""Frame-by-frame road scene segmentation of a dash-cam clip.

Encoder at 1/8 resolution, a small pyramid context module, and a classifier
that labels each pixel of the original frame.
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = ("sky", "building", "vegetation", "pole", "sign", "road", "kerb", "pavement", "car", "person", "rider", "void")
HEIGHT, WIDTH = 256, 448


def conv_bn(cin, cout, k=3, stride=1, groups=1, dilation=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, stride, dilation * (k // 2), dilation, groups, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Separable(nn.Sequential):
    def __init__(self, cin, cout, stride=1, dilation=1):
        super().__init__(conv_bn(cin, cin, 3, stride, cin, dilation), conv_bn(cin, cout, 1))


class Context(nn.Module):
    """Dilated branches side by side, merged by a 1x1 convolution."""

    def __init__(self, cin, cout, rates=(1, 3, 6)):
        super().__init__()
        self.branches = nn.ModuleList([Separable(cin, cout, dilation=r) for r in rates])
        self.merge = conv_bn(cout * len(rates), cout, 1)

    def forward(self, x):
        return self.merge(torch.cat([b(x) for b in self.branches], dim=1))


class SceneNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.encoder = nn.Sequential(
            conv_bn(3, 32, 3, 2),
            Separable(32, 64, 2),
            Separable(64, 64),
            Separable(64, 128, 2),
            Separable(128, 128),
            Separable(128, 128),
        )
        self.context = Context(128, 96)
        self.classifier = nn.Conv2d(96, classes, 1)

    def forward(self, x):
        size = x.shape[-2:]
        features = self.context(self.encoder(x))
        features = F.interpolate(features, size=size, mode="bilinear", align_corners=False)
        return self.classifier(features)


def dashcam(seed=9):
    """Endless frames (uint8, 3 x H x W): a drifting skyline above a road."""
    gen = torch.Generator().manual_seed(seed)
    texture = torch.randint(0, 60, (3, HEIGHT, WIDTH * 2), generator=gen, dtype=torch.uint8)
    skyline = (60 + 40 * torch.rand(WIDTH * 2 // 16, generator=gen)).long().repeat_interleave(16)
    rows = torch.arange(HEIGHT)[:, None]
    scene = texture.clone()
    scene[2] += torch.where(rows < skyline, 180, 40).to(torch.uint8)
    scene[:2] += torch.where(rows > 160, 90, 20).to(torch.uint8)
    shift = 0
    while True:
        yield scene[:, :, shift:shift + WIDTH]
        shift = (shift + 5) % WIDTH


def normalise(frame):
    mean = torch.tensor([0.41, 0.43, 0.40]).view(3, 1, 1)
    x = frame.float().div_(255).sub_(mean).div_(0.25)
    return x.unsqueeze(0).contiguous(memory_format=torch.channels_last)


def label_maps(model, frames):
    """Yield one (H, W) map of class numbers per frame."""
    for frame in frames:
        with torch.inference_mode():
            logits = model(normalise(frame))
            yield logits[0].argmax(dim=0)


def load_model(seed=21):
    torch.manual_seed(seed)
    model = SceneNet(len(CLASSES))
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_in", nonlinearity="relu")
    return model.eval().to(memory_format=torch.channels_last)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    model = load_model()
    counts = torch.zeros(len(CLASSES), dtype=torch.long)
    for _, labels in zip(range(args.steps), label_maps(model, dashcam())):
        counts += torch.bincount(labels.flatten(), minlength=len(CLASSES))
    share = counts.double() / counts.sum()
    top = int(share.argmax())
    entropy = -(share.clamp(min=1e-12).log() * share).sum()
    print(f"frames {args.steps}  most frequent {CLASSES[top]} {share[top]:.3f}  entropy {entropy:.3f}")


if __name__ == "__main__":
    main()
