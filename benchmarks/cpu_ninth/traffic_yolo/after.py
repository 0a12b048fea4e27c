"""Counting vehicles in traffic camera frames with a single-scale YOLO-style detector."""
import argparse
import statistics
import time

import torch
from torch import nn

CLASSES = ["car", "truck", "bus", "bike"]
ANCHORS = [(18.0, 14.0), (42.0, 30.0), (70.0, 60.0)]
STRIDE = 16


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.1))


class TinyYolo(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, 2), conv(16, 32, 2), conv(32, 48), conv(48, 64, 2),
                                  conv(64, 96, 2), conv(96, 96))
        self.head = nn.Conv2d(96, len(ANCHORS) * (5 + len(CLASSES)), 1)

    def forward(self, x):
        out = self.head(self.body(x))
        b, _, h, w = out.shape
        return out.view(b, len(ANCHORS), 5 + len(CLASSES), h, w).permute(0, 1, 3, 4, 2)


def camera(batch=4, size=288, seed=13):
    """Endless stream of frames with moving bright boxes on a noisy road."""
    g = torch.Generator().manual_seed(seed)
    road = torch.rand(1, 3, size, size, generator=g) * 0.2 + 0.3
    t = 0
    while True:
        frames = road.repeat(batch, 1, 1, 1)
        for i in range(batch):
            for k in range(8):
                x, y = (37 * k + 5 * t) % (size - 40), (61 * k) % (size - 30)
                frames[i, k % 3, y:y + 20 + k, x:x + 30 + k] += 0.5
            t += 1
        yield frames


def decode(pred, conf_thres):
    """Turn one image's raw predictions (A, H, W, 5+C) into rows x1,y1,x2,y2,score,class."""
    obj = torch.sigmoid(pred[..., 4])
    a, gy, gx = torch.nonzero(obj >= conf_thres, as_tuple=True)
    cell = pred[a, gy, gx]
    grid = torch.stack([gx, gy], dim=1).to(pred.dtype)
    anchor = torch.tensor(ANCHORS)[a]
    centre = (torch.sigmoid(cell[:, :2]) + grid) * STRIDE
    half = torch.exp(cell[:, 2:4]) * anchor / 2
    cls = cell[:, 5:].argmax(dim=1)
    return torch.cat([centre - half, centre + half, obj[a, gy, gx][:, None], cls[:, None].to(pred.dtype)], dim=1)


def iou(box, others):
    lt = torch.maximum(box[:2], others[:, :2])
    rb = torch.minimum(box[2:4], others[:, 2:4])
    inter = (rb - lt).clamp(min=0).prod(1)
    area = (box[2:4] - box[:2]).prod()
    return inter / (area + (others[:, 2:4] - others[:, :2]).prod(1) - inter)


def nms(det, thres=0.4, limit=20):
    det = det[det[:, 4].argsort(descending=True, stable=True)]
    keep = []
    while len(det) and len(keep) < limit:
        keep.append(det[0])
        det = det[1:]
        det = det[iou(keep[-1], det) < thres]
    return torch.stack(keep) if keep else det


def calibrate(model, frames, quantile=0.97):
    """No trained weights here: pick the threshold that leaves a plausible number of boxes."""
    with torch.no_grad():
        return torch.quantile(torch.sigmoid(model(frames)[..., 4]).flatten(), quantile).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    model = TinyYolo().eval()
    stream = camera()
    conf = calibrate(model, next(stream))
    counts, times, checksum = {c: 0 for c in CLASSES}, [], 0.0
    start = time.perf_counter()
    while len(times) < args.steps or (args.seconds and time.perf_counter() - start < args.seconds):
        t0 = time.perf_counter()
        with torch.no_grad():
            preds = model(next(stream))
            for pred in preds:
                det = nms(decode(pred, conf))
                for c in det[:, 5].int().tolist():
                    counts[CLASSES[c]] += 1
                checksum += det[:, 4].sum().item()
        times.append(time.perf_counter() - t0)
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return checksum + sum(counts.values())


if __name__ == "__main__":
    main()
