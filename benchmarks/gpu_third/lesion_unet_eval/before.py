"""Evaluate a U-Net for skin lesion segmentation: loss, mean Dice and IoU on a validation set."""
import argparse
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, base=32, levels=4):
        super().__init__()
        widths = [base * 2 ** i for i in range(levels + 1)]
        self.stem = double_conv(3, base)
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2)
                                for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.merge = nn.ModuleList(double_conv(2 * a, a) for a in widths[-2::-1])
        self.head = nn.Conv2d(base, 1, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for block in self.down:
            skips.append(x)
            x = block(self.pool(x))
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def synthetic_lesions(count, size):
    """Round dark spots on noisy skin, with their masks."""
    grid = torch.arange(size)
    centre = torch.randint(size // 4, 3 * size // 4, (count, 2, 1, 1))
    radius = torch.randint(size // 10, size // 4, (count, 1, 1))
    masks = (grid[None, :, None] - centre[:, 0]) ** 2 + (grid[None, None] - centre[:, 1]) ** 2 < radius ** 2
    images = torch.randint(120, 255, (count, 3, size, size), dtype=torch.uint8)
    images = torch.where(masks[:, None], images // 2, images)
    return images, masks


def image_scores(logits, masks, eps=1e-6):
    """Loss, Dice and IoU of every image, summed over the batch."""
    logits = logits[:, 0].float()
    loss = F.binary_cross_entropy_with_logits(logits, masks.float(), reduction="none").mean(dim=(1, 2))
    pred = logits > 0
    inter = (pred & masks).sum(dim=(1, 2)).float()
    total = pred.sum(dim=(1, 2)) + masks.sum(dim=(1, 2))
    dice = (2 * inter + eps) / (total + eps)
    iou = (inter + eps) / (total - inter + eps)
    return torch.stack([loss.sum(), dice.sum(), iou.sum()])


@torch.inference_mode()
def evaluate_batch(model, images, masks, dtype):
    images = images.to(dtype).div_(255).sub_(0.5).contiguous(memory_format=torch.channels_last)
    scores = torch.zeros(3, device=images.device)
    for image, mask in zip(images, masks):
        logits = model(image.unsqueeze(0))
        scores += image_scores(logits, mask.unsqueeze(0))
    return scores


def batches(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        count, size, batch_size, base = 16, 32, 4, 8
    else:
        count, size, batch_size, base = 256, 256, 32, 32

    loader = DataLoader(TensorDataset(*synthetic_lesions(count, size)), batch_size=batch_size,
                        pin_memory=use_cuda)
    dtype = torch.bfloat16 if use_cuda else torch.float32
    with device:
        model = UNet(base)
    model = model.to(dtype=dtype, memory_format=torch.channels_last).eval()
    stream = batches(loader)

    def step():
        images, masks = next(stream)
        images = images.to(device, non_blocking=True)
        masks = masks.to(device, non_blocking=True)
        return evaluate_batch(model, images, masks, dtype)

    for _ in range(3):
        step()
    if use_cuda:
        torch.cuda.synchronize()
    total = torch.zeros(3, device=device)
    start = time.perf_counter()
    for _ in range(args.steps):
        total += step()
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    loss, dice, iou = (total / (args.steps * batch_size)).tolist()
    print(f"loss {loss:.5f} mean dice {dice:.4f} mean iou {iou:.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
