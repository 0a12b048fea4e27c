"""Support tickets: synthetic corpus, tokeniser and batching."""
import random

import torch
from torch.utils.data import Dataset

TEAMS = ["billing", "login", "shipping", "refund", "bug", "feature"]
PAD, UNK = 0, 1
MAX_LEN = 256

_TOPIC = {t: [f"{t}_{i}" for i in range(40)] for t in TEAMS}
_COMMON = [f"word_{i}" for i in range(1500)]


def synth_tickets(count, seed):
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        team = rng.choice(TEAMS)
        length = min(int(rng.lognormvariate(3.5, 0.55)) + 5, 400)
        words = [rng.choice(_TOPIC[team]) if rng.random() < 0.12 else rng.choice(_COMMON)
                 for _ in range(length)]
        out.append((" ".join(words), TEAMS.index(team)))
    return out


class Vocabulary:
    def __init__(self, texts):
        words = sorted({w for t in texts for w in t.split()})
        self.index = {w: i + 2 for i, w in enumerate(words)}

    def __len__(self):
        return len(self.index) + 2

    def encode(self, text):
        return [self.index.get(w, UNK) for w in text.split()[:MAX_LEN]]


class Tickets(Dataset):
    def __init__(self, rows, vocab):
        self.ids = [torch.tensor(vocab.encode(text)) for text, _ in rows]
        self.team = [team for _, team in rows]

    def __len__(self):
        return len(self.team)

    def __getitem__(self, i):
        return self.ids[i], self.team[i]


def collate(items):
    longest = max(len(tokens) for tokens, _ in items)
    ids = torch.full((len(items), longest), PAD)
    for row, (tokens, _) in enumerate(items):
        ids[row, :len(tokens)] = tokens
    return ids, torch.tensor([team for _, team in items])
