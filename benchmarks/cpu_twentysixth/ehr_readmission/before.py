"""Will a patient be readmitted within 30 days? A recurrent model over the events of a hospital stay."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CODES = 1200


def hospital(stays, seed=0):
    """The event table of the hospital's system, in order of time, and the list of stays with their outcome."""
    rng = random.Random(seed)
    table, outcomes = [], []
    for stay in range(stays):
        severity = rng.random()
        for _ in range(rng.randint(20, 60)):
            code = int(CODES * rng.random() ** (1 + severity))
            table.append(
                {
                    "stay": stay,
                    "hour": rng.uniform(0, 240),
                    "code": code,
                    "value": rng.gauss(severity, 1.0),
                }
            )
        outcomes.append({"stay": stay, "age": rng.randint(20, 95), "readmitted": int(rng.random() < severity)})
    table.sort(key=lambda event: event["hour"])
    return table, outcomes


class StayDataset(Dataset):
    """The last `length` events of each stay."""

    def __init__(self, table, outcomes, length=48):
        self.table = table
        self.outcomes = outcomes
        self.length = length

    def __len__(self):
        return len(self.outcomes)

    def __getitem__(self, i):
        outcome = self.outcomes[i]
        events = [e for e in self.table if e["stay"] == outcome["stay"]]
        events = events[-self.length :]
        return {
            "codes": torch.tensor([e["code"] for e in events]),
            "values": torch.tensor([[e["value"], e["hour"] / 240] for e in events]),
            "age": torch.tensor([outcome["age"] / 100]),
            "label": torch.tensor(float(outcome["readmitted"])),
        }


def collate(items):
    pad = nn.utils.rnn.pad_sequence
    return {
        "codes": pad([item["codes"] for item in items], batch_first=True),
        "values": pad([item["values"] for item in items], batch_first=True),
        "lengths": torch.tensor([len(item["codes"]) for item in items]),
        "age": torch.stack([item["age"] for item in items]),
        "label": torch.stack([item["label"] for item in items]),
    }


class StayModel(nn.Module):
    def __init__(self, width=96, hidden=256):
        super().__init__()
        self.code = nn.Embedding(CODES, width)
        self.value = nn.Linear(2, width)
        self.rnn = nn.GRU(width, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden + 1, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, batch):
        x = self.code(batch["codes"]) + self.value(batch["values"])
        states, _ = self.rnn(x)
        last = states[torch.arange(len(states)), batch["lengths"] - 1]
        return self.head(torch.cat([last, batch["age"]], dim=1)).squeeze(1)


class Trainer:
    def __init__(self, model, loader, lr=1e-3):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.losses = torch.zeros(())
        self.steps = 0

    def step(self, batch):
        loss = F.binary_cross_entropy_with_logits(self.model(batch), batch["label"])
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.losses += loss.detach()
        self.steps += 1

    def fit(self, steps):
        while self.steps < steps:
            for batch in self.loader:
                self.step(batch)
                if self.steps == steps:
                    return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    table, outcomes = hospital(450)
    loader = DataLoader(
        StayDataset(table, outcomes), batch_size=args.batch_size, shuffle=True, drop_last=True, collate_fn=collate
    )
    trainer = Trainer(StayModel(), loader)
    trainer.fit(args.steps)
    print(f"mean loss {trainer.losses.item() / args.steps:.5f}")


if __name__ == "__main__":
    main()
