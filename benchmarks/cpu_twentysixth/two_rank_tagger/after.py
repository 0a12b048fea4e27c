"""Named entities in sentences: a BiLSTM over ready-made word vectors, trained by two processes with gloo."""

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

WORDS, TAGS, LENGTH = 24000, 9, 24


def word_vectors(dim):
    """In place of a file of trained vectors."""
    return torch.randn(WORDS, dim, generator=torch.Generator().manual_seed(3)) / dim**0.5


class Sentences:
    """Word numbers and tags; a word's tag depends on the word and the one before."""

    def __init__(self, rank):
        self.gen = torch.Generator().manual_seed(100 + rank)
        self.kind = torch.randint(TAGS, (WORDS,), generator=torch.Generator().manual_seed(4))

    def batch(self, size):
        words = (WORDS * torch.rand(size, LENGTH, generator=self.gen) ** 3).long()
        kinds = self.kind[words]
        return words, torch.where(kinds.roll(1, dims=1) > 4, kinds, 0)


class Tagger(nn.Module):
    def __init__(self, vectors, hidden=96):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.dropout = nn.Dropout(0.2)
        self.rnn = nn.LSTM(vectors.shape[1], hidden, bidirectional=True, batch_first=True)
        self.out = nn.Sequential(nn.Linear(2 * hidden, 128), nn.ReLU(), nn.Linear(128, TAGS))

    def forward(self, words):
        states, _ = self.rnn(self.dropout(self.vectors(words)))
        return self.out(states)


def average_gradients(model):
    """The mean gradient of all processes, in one message."""
    params = [p for p in model.parameters() if p.requires_grad]
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, g in zip(params, flat.split([p.numel() for p in params])):
        if p.grad is not None:
            p.grad.copy_(g.view_as(p))


class Trainer:
    def __init__(self, model, lr=2e-3):
        self.model = model
        self.optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr, foreach=True)
        self.total = torch.zeros(())

    def step(self, words, tags):
        loss = F.cross_entropy(self.model(words).flatten(0, 1), tags.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        average_gradients(self.model)
        self.optimizer.step()
        self.total += loss.detach()


def work(rank, world, args, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = Tagger(word_vectors(dim=100))
    torch.manual_seed(10 + rank)
    trainer, sentences = Trainer(model), Sentences(rank)
    for _ in range(args.steps):
        trainer.step(*sentences.batch(args.batch_size))
    dist.all_reduce(trainer.total)
    if rank == 0:
        print(f"mean loss {trainer.total.item() / world / args.steps:.5f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=48, help="of each process")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        mp.start_processes(work, args=(2, args, store), nprocs=2, start_method="fork")


if __name__ == "__main__":
    main()
