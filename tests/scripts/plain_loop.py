"""A training loop whose samples are slow to make, in the process that trains."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, index):
        time.sleep(0.004)  # fault
        return torch.full((16,), float(index)), index % 4


def main():
    torch.manual_seed(0)
    loader = DataLoader(Slow(), batch_size=8)  # made here
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:  # the loop
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("trained")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
