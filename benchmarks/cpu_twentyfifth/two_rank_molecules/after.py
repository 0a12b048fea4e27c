"""Energies of molecules by message passing, trained on two processes (gloo)."""
import argparse
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WORLD = 2


class Molecules:
    """Made-up molecules of 6 to 120 atoms; an atom is bound to its six nearest ones."""

    def __init__(self, count, neighbours=6, seed=0):
        gen = torch.Generator().manual_seed(seed)
        sizes = torch.exp(3.2 + 0.8 * torch.randn(count, generator=gen)).long().clamp(neighbours + 2, 120)
        self.items = []
        for size in sizes.tolist():
            kind = torch.randint(8, (size,), generator=gen)
            place = torch.randn(size, 3, generator=gen) * size ** (1 / 3)
            distance, near = torch.cdist(place, place).topk(neighbours + 1, largest=False)
            source = near[:, 1:].flatten()
            target = torch.arange(size).repeat_interleave(neighbours)
            length = distance[:, 1:].flatten()
            energy = (torch.exp(-length) * (kind[source] - kind[target]).abs()).mean()
            self.items.append((kind, source, target, length, energy))

    def __len__(self):
        return len(self.items)


def collate(items):
    """Many molecules as one graph without padding."""
    kinds, sources, targets, lengths, energies = zip(*items)
    sizes = torch.tensor([len(kind) for kind in kinds])
    starts = (sizes.cumsum(0) - sizes).tolist()
    return (
        torch.cat(kinds),
        torch.cat([source + start for source, start in zip(sources, starts)]),
        torch.cat([target + start for target, start in zip(targets, starts)]),
        torch.cat(lengths),
        torch.repeat_interleave(torch.arange(len(items)), sizes),
        torch.stack(energies),
    )


class Shards:
    """Batches of all processes, and this one's part of each."""

    def __init__(self, data, batch_size, rank, seed=0):
        self.data, self.batch_size, self.rank = data, batch_size, rank
        self.gen = torch.Generator().manual_seed(seed)

    def __iter__(self):
        while True:
            order = torch.randperm(len(self.data), generator=self.gen).tolist()
            for start in range(0, len(order) - self.batch_size + 1, self.batch_size):
                items = [self.data.items[i] for i in order[start:start + self.batch_size]]
                items.sort(key=lambda item: len(item[0]), reverse=True)
                yield collate(items[self.rank::WORLD])


class Message(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.source, self.target = nn.Linear(width, width), nn.Linear(width, width)
        self.length = nn.Linear(16, width)
        self.out = nn.Linear(width, width)
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x, source, target, radial):
        pair = self.source(x).index_select(0, source) + self.target(x).index_select(0, target)
        message = self.out(F.silu(pair + self.length(radial)))
        received = torch.zeros_like(x).index_add(0, target, message)
        return x + self.update(torch.cat([x, received], dim=1))


class EnergyModel(nn.Module):
    def __init__(self, width=64, layers=3):
        super().__init__()
        self.embed = nn.Embedding(8, width)
        self.register_buffer("centres", torch.linspace(0, 6, 16))
        self.layers = nn.ModuleList(Message(width) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, kind, source, target, length, graph, count):
        x = self.embed(kind)
        radial = torch.exp(-(length.unsqueeze(1) - self.centres) ** 2)
        for layer in self.layers:
            x = layer(x, source, target, radial)
        energy = self.head(x).squeeze(1)
        atoms = torch.bincount(graph, minlength=count)
        return torch.zeros(count).index_add(0, graph, energy) / atoms


def work(rank, args, folder):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD)
    data = Molecules(480)
    model = DistributedDataParallel(EnergyModel())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    total = torch.zeros(())
    batches = iter(Shards(data, args.batch_size, rank))
    for _ in range(args.steps):
        kind, source, target, length, graph, energy = next(batches)
        predicted = model(kind, source, target, length, graph, len(energy))
        loss = F.mse_loss(predicted, energy)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"mean loss {total.item() / WORLD / args.steps:.5f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(work, args=(args, folder), nprocs=WORLD, start_method="fork")


if __name__ == "__main__":
    main()
