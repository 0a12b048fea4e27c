"""Semantic segmentation of synthetic aerial tiles on two gloo ranks, with running mean IoU."""
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

WORLD = 2
CLASSES = 32
SIZE = 96
BATCH = 6
STEPS = 80
WARMUP = 4


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Tiles:
    """Blocky land-use maps, seen through a noisy palette."""

    def __init__(self, rank):
        self.g = torch.Generator().manual_seed(100 + rank)
        self.palette = torch.randn(CLASSES, 3, generator=torch.Generator().manual_seed(1))

    def batch(self):
        coarse = torch.randint(0, CLASSES, (BATCH, 1, 8, 8), generator=self.g)
        label = F.interpolate(coarse.float(), size=(SIZE, SIZE), mode="nearest").long().squeeze(1)
        image = self.palette[label].permute(0, 3, 1, 2).contiguous()
        image = image + 0.5 * torch.randn(image.shape, generator=self.g)
        return image, label


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(4, cout), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = conv(3, 16, 2)
        self.down1 = conv(16, 24, 2)
        self.down2 = nn.Sequential(conv(24, 32, 2), conv(32, 32))
        self.up1 = conv(32 + 24, 24)
        self.up0 = conv(24 + 16, 16)
        self.head = nn.Conv2d(16, CLASSES, 1)

    def forward(self, x):
        a = self.enter(x)
        b = self.down1(a)
        c = self.down2(b)
        b = self.up1(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.up0(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return F.interpolate(self.head(a), scale_factor=2, mode="bilinear")


class MeanIoU:
    """Mean intersection over union over all ranks."""

    def __init__(self):
        self.confusion = torch.zeros(CLASSES, CLASSES, dtype=torch.long)

    @staticmethod
    def count(logits, label):
        cell = label.flatten() * CLASSES + logits.argmax(1).flatten()
        return torch.bincount(cell, minlength=CLASSES ** 2).view(CLASSES, CLASSES)

    def update(self, logits, label):
        gathered = [None] * WORLD
        dist.all_gather_object(gathered, (logits, label))
        for peer_logits, peer_label in gathered:
            self.confusion += self.count(peer_logits, peer_label)

    def compute(self):
        hit = self.confusion.diag().float()
        union = self.confusion.sum(0) + self.confusion.sum(1) - self.confusion.diag()
        return (hit / union.clamp(min=1)).mean().item()


def work(rank, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    torch.set_num_threads(1)
    torch.manual_seed(51)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    tiles = Tiles(rank)
    net = DistributedDataParallel(SmallUNet())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    metric = MeanIoU()
    times = []
    for step in range(STEPS):
        start = time.perf_counter()
        image, label = tiles.batch()
        logits = net(image)
        loss = F.cross_entropy(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metric.update(logits.detach(), label)
        times.append(time.perf_counter() - start)
        if rank == 0 and step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}  mIoU so far {metric.compute():.4f}")
    final = loss.detach().clone()
    dist.all_reduce(final)
    if rank == 0:
        mean = sum(times[WARMUP:]) / len(times[WARMUP:])
        print(f"final loss {final.item() / WORLD:.5f}  mIoU {metric.compute():.5f}")
        print(f"mean step time {mean * 1000:.2f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(free_port(),), nprocs=WORLD)
