"""Validate a street-scene segmentation network: mIoU and pixel accuracy over a split."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = ("road", "building", "vegetation", "sky", "car", "person")
NUM_CLASSES = len(CLASSES)
IGNORE = 255
H, W = 96, 160


class StreetScenes:
    """Procedural scenes: sky on top, road at the bottom, boxes in between."""

    def __init__(self, batch_size, seed=4):
        self.batch_size = batch_size
        self.g = torch.Generator().manual_seed(seed)
        self.palette = torch.rand(NUM_CLASSES, 3, generator=torch.Generator().manual_seed(0))
        self.rows = torch.arange(H)[:, None]

    def next(self):
        labels = torch.empty(self.batch_size, H, W, dtype=torch.long)
        images = torch.empty(self.batch_size, 3, H, W)
        for b in range(self.batch_size):
            horizon = int(torch.randint(H // 4, H // 2, (1,), generator=self.g))
            lab = torch.where(self.rows < horizon, 3, 0).expand(H, W).clone()
            for cls in torch.randint(1, NUM_CLASSES, (8,), generator=self.g).tolist():
                y, x = int(torch.randint(horizon - 10, H - 16, (1,), generator=self.g)), int(
                    torch.randint(0, W - 20, (1,), generator=self.g))
                lab[y:y + 16, x:x + 20] = cls
            lab[-4:] = IGNORE  # ego vehicle
            labels[b] = lab
            images[b] = self.palette[lab.clamp(max=NUM_CLASSES - 1)].permute(2, 0, 1)
        images += 0.25 * torch.randn(images.shape, generator=self.g)
        return images, labels


class SegNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()

        def conv(cin, cout, stride=1):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1), nn.ReLU(inplace=True))

        self.enc1 = conv(3, width, 2)
        self.enc2 = nn.Sequential(conv(width, 2 * width, 2), conv(2 * width, 2 * width))
        self.dec = conv(3 * width, width)
        self.head = nn.Conv2d(width, NUM_CLASSES, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = F.interpolate(self.enc2(e1), size=e1.shape[-2:], mode="bilinear", align_corners=False)
        logits = self.head(self.dec(torch.cat([e1, e2], dim=1)))
        return F.interpolate(logits, size=x.shape[-2:], mode="bilinear", align_corners=False)


class SegmentationMetric:
    """Streaming interface: update() with each batch, compute() gives mIoU and accuracy."""

    def __init__(self, num_classes, ignore_index):
        self.num_classes, self.ignore_index = num_classes, ignore_index
        self.conf = torch.zeros(num_classes, num_classes, dtype=torch.long)

    def update(self, pred, target):
        keep = target != self.ignore_index
        index = target[keep] * self.num_classes + pred[keep]
        conf = torch.bincount(index, minlength=self.num_classes ** 2)
        self.conf += conf.view(self.num_classes, self.num_classes)

    def compute(self):
        conf = self.conf
        tp = conf.diag().double()
        union = conf.sum(0) + conf.sum(1) - tp
        present = union > 0
        return {"mIoU": (tp[present] / union[present]).mean().item(), "acc": (tp.sum() / conf.sum()).item()}


def load_model(scenes):
    """Stand-in for a checkpoint: a short fit on a few scenes."""
    torch.manual_seed(0)
    model = SegNet()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(30):
        x, y = scenes.next()
        loss = F.cross_entropy(model(x), y, ignore_index=IGNORE)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model.eval()


@torch.inference_mode()
def evaluate(model, scenes, num_batches):
    metric = SegmentationMetric(NUM_CLASSES, IGNORE)
    status, best = "", 0.0
    for i in range(num_batches):
        images, labels = scenes.next()
        pred = model(images).argmax(dim=1)
        metric.update(pred, labels)
        # running value for the progress bar
        running = metric.compute()
        best = max(best, running["mIoU"])
        status = f"[{i + 1}/{num_batches}] mIoU {running['mIoU']:.4f} acc {running['acc']:.4f} (best {best:.4f})"
    return status


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="validation batches")
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    model = load_model(StreetScenes(4, seed=1))
    print(evaluate(model, StreetScenes(args.batch_size), args.steps))


if __name__ == "__main__":
    main()
