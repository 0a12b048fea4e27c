"""Four backward passes to an optimizer step, and an optimizer that goes over its parameters one by one."""

import argparse

import torch
from torch import nn

torch.set_num_threads(1)


def build(depth):
    return nn.Sequential(*[nn.Linear(8, 8) for _ in range(depth)])


def train(model, optimizer, steps, parts=4):
    batch = torch.ones(2, 8)
    for _ in range(steps):
        for _ in range(parts):
            loss = model(batch).square().mean() / parts
            loss.backward()
        optimizer.step()  # fault
        optimizer.zero_grad()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
model = build(depth=24)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)  # made here
train(model, optimizer, parser.parse_args().steps)
