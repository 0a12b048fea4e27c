"""Data-parallel training of an MLP-Mixer on two gloo ranks, gradients averaged by hand."""
import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

WORLD = 2
CLASSES = 10
PATCHES = 16
PATCH_DIM = 48


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_images(count, seed):
    """Patches of noisy class prototypes."""
    gen = torch.Generator().manual_seed(seed)
    prototypes = torch.randn(CLASSES, PATCHES, PATCH_DIM, generator=gen)
    labels = torch.randint(CLASSES, (count,), generator=gen)
    images = prototypes[labels] + 2.5 * torch.randn(count, PATCHES, PATCH_DIM, generator=gen)
    return images, labels


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token1 = nn.Linear(tokens, 2 * tokens)
        self.token2 = nn.Linear(2 * tokens, tokens)
        self.norm2 = nn.LayerNorm(dim)
        self.channel1 = nn.Linear(dim, 2 * dim)
        self.channel2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        y = self.norm1(x).transpose(1, 2)
        x = x + self.token2(F.gelu(self.token1(y))).transpose(1, 2)
        return x + self.channel2(F.gelu(self.channel1(self.norm2(x))))


class Mixer(nn.Module):
    def __init__(self, dim=128, depth=5):
        super().__init__()
        self.stem = nn.Linear(PATCH_DIM, dim)
        self.blocks = nn.Sequential(*[MixerBlock(PATCHES, dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x))).mean(1))


def broadcast_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


def average_gradients(model):
    """Mean of the gradients over all ranks."""
    world = dist.get_world_size()
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad /= world


def worker(rank, args, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(rank)

    images, labels = make_images(4096, seed=0)
    images, labels = images[rank::WORLD], labels[rank::WORLD]
    gen = torch.Generator().manual_seed(100 + rank)

    model = Mixer()
    broadcast_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    total = torch.zeros(1)
    for step in range(args.steps):
        rows = torch.randint(len(images), (args.batch_size,), generator=gen)
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        total += loss.detach()

    dist.all_reduce(total)
    if rank == 0:
        print(f"mean training loss {total.item() / (WORLD * args.steps):.3f}")
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=48)
    args = parser.parse_args()
    port = free_port()
    context = mp.get_context("spawn")
    peers = [context.Process(target=worker, args=(rank, args, port), daemon=True) for rank in range(1, WORLD)]
    for peer in peers:
        peer.start()
    worker(0, args, port)
    for peer in peers:
        peer.join()


if __name__ == "__main__":
    main()
