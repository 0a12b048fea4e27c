"""Activity of molecules from their own fingerprint and from their nearest neighbours in an assay library."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

BITS = 1024


def fold(keys):
    """A hashed fingerprint: the bits of a molecule's substructure keys, as lists of 0 and 1."""
    bits = [0] * BITS
    for key in keys:
        bits[(key * 2654435761) % BITS] = 1
    return bits


def molecules(count, seed):
    """Families of molecules with common substructures; each family has its own activity."""
    gen = torch.Generator().manual_seed(seed)
    cores = torch.randint(40000, (40, 45), generator=torch.Generator().manual_seed(7))
    activity = torch.randn(40, generator=torch.Generator().manual_seed(8))
    family = torch.randint(40, (count,), generator=gen)
    side = torch.randint(40000, (count, 25), generator=gen)
    fingerprints = [fold(core + chain) for core, chain in zip(cores[family].tolist(), side.tolist())]
    labels = activity[family] + 0.2 * torch.randn(count, generator=gen)
    return torch.tensor(fingerprints, dtype=torch.float32), labels


class Library:
    """Measured molecules, searched by Tanimoto similarity."""

    def __init__(self, fingerprints, labels, k=16):
        self.bits = fingerprints
        self.sizes = fingerprints.sum(dim=1)
        self.labels = labels
        self.k = k

    def search(self, query):
        common = query @ self.bits.t()
        union = query.sum(dim=1, keepdim=True) + self.sizes - common
        similarity, index = (common / union).topk(self.k, dim=1)
        return similarity, index


class ActivityModel(nn.Module):
    """The molecule attends to the measured activities of its neighbours."""

    def __init__(self, library, width=256):
        super().__init__()
        self.library = library
        self.encode = nn.Sequential(nn.Linear(BITS, 512), nn.ReLU(), nn.Linear(512, width))
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Sequential(nn.Linear(width + 1, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, fingerprints):
        similarity, index = self.library.search(fingerprints)
        near = self.library.bits[index].float()
        x, memory = self.encode(fingerprints.float()), self.encode(near)
        scores = torch.einsum("bd,bkd->bk", self.query(x), self.key(memory)) / x.shape[1] ** 0.5
        weight = (scores + 5 * similarity).softmax(dim=1)
        prior = (weight * self.library.labels[index]).sum(dim=1, keepdim=True)
        return prior.squeeze(1) + self.head(torch.cat([x, prior], dim=1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    library = Library(*molecules(1500, seed=1))
    fingerprints, labels = molecules(2000, seed=2)
    model = ActivityModel(library)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    total, done = torch.zeros(()), 0
    while done < args.steps:
        for part in torch.randperm(len(labels)).split(args.batch_size)[:-1]:
            loss = F.smooth_l1_loss(model(fingerprints[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
            done += 1
            if done == args.steps:
                break
    print(f"mean loss {total.item() / args.steps:.5f}")


if __name__ == "__main__":
    main()
