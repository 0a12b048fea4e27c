"""Train the lane segmenter."""
import argparse
import time

import torch

from lanes.data import Roads
from lanes.model import LaneLoss, LaneNet


def run(steps, batch, lr):
    torch.manual_seed(5)
    model, criterion = LaneNet(), LaneLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    roads = Roads(batch, seed=6)
    begin = time.perf_counter()
    for step, (image, label) in zip(range(steps), roads):
        if step == 5:
            begin = time.perf_counter()
        loss = criterion(model(image), label)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    return 1000 * (time.perf_counter() - begin) / max(1, steps - 5)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--lr", type=float, default=0.05)
    a = p.parse_args()
    print(f"mean step {run(a.steps, a.batch, a.lr):.2f} ms")
