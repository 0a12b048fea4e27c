import random

import torch
from torch.utils.data import Dataset

TOPICS = {
    "billing": ["invoice", "charged", "refund", "card", "receipt", "price", "payment"],
    "login": ["password", "locked", "login", "reset", "code", "account", "email"],
    "shipping": ["parcel", "courier", "late", "tracking", "address", "box", "delivery"],
    "bug": ["crash", "error", "screen", "button", "freeze", "update", "version"],
    "praise": ["thanks", "great", "love", "helpful", "quick", "friendly", "perfect"],
}
FILLER = ("i have a question about my order and the thing that you sent me last week because it is not what "
          "we wanted so please tell us when this can be done or who to call").split()


def make_tickets(n, seed=0):
    """Support tickets, most of them short and a few long, as such texts are."""
    rng = random.Random(seed)
    texts, labels = [], []
    names = list(TOPICS)
    for _ in range(n):
        label = rng.randrange(len(names))
        length = min(110, max(8, int(rng.lognormvariate(3.2, 0.45))))
        words = [rng.choice(TOPICS[names[label]]) if rng.random() < 0.12 else rng.choice(FILLER)
                 for _ in range(length)]
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


class TicketDataset(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.encodings = [tokenizer(text) for text in texts]
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {**self.encodings[i], "label": self.labels[i]}


class TicketCollator:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, features):
        labels = [f["label"] for f in features]
        batch = self.tokenizer.pad(features, padding="longest")
        return {
            "input_ids": torch.tensor(batch["input_ids"]),
            "attention_mask": torch.tensor(batch["attention_mask"], dtype=torch.bool),
            "labels": torch.tensor(labels),
        }
