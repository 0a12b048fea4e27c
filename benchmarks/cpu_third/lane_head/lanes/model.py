"""Encoder with a two-level feature pyramid and a segmentation head."""
import torch
import torch.nn.functional as F
from torch import nn


def block(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Encoder(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        a, b, c = widths
        self.stem = block(3, a, stride=2)
        self.quarter = nn.Sequential(block(a, b, stride=2), block(b, b))
        self.eighth = nn.Sequential(block(b, c, stride=2), block(c, c))

    def forward(self, x):
        quarter = self.quarter(self.stem(x))
        return quarter, self.eighth(quarter)


class Pyramid(nn.Module):
    def __init__(self, fine, coarse, width):
        super().__init__()
        self.fine = nn.Conv2d(fine, width, 1)
        self.coarse = nn.Conv2d(coarse, width, 1)
        self.smooth = block(width, width)

    def forward(self, fine, coarse):
        up = F.interpolate(self.coarse(coarse), scale_factor=2, mode="nearest")
        return self.smooth(self.fine(fine) + up)


class LaneHead(nn.Module):
    def __init__(self, width, classes, scale):
        super().__init__()
        self.refine = block(width, width)
        self.upsample = nn.Upsample(scale_factor=scale, mode="bilinear", align_corners=False)
        self.classify = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x = self.refine(x)
        x = self.upsample(x)
        return self.classify(x)


class LaneNet(nn.Module):
    def __init__(self, classes=5, width=48):
        super().__init__()
        self.encoder = Encoder()
        self.pyramid = Pyramid(32, 64, width)
        self.head = LaneHead(width, classes, scale=4)

    def forward(self, image):
        return self.head(self.pyramid(*self.encoder(image)))


class LaneLoss(nn.Module):
    """Cross-entropy with a light background class."""

    def __init__(self, classes=5, background=0.2):
        super().__init__()
        weight = torch.ones(classes)
        weight[0] = background
        self.register_buffer("weight", weight)

    def forward(self, logits, label):
        return F.cross_entropy(logits, label, weight=self.weight)
