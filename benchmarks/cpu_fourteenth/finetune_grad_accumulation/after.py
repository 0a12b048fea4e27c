"""Fine-tune a classification head on a pre-trained text encoder, with gradient accumulation."""
import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 1000
LENGTH = 32
WIDTH = 96
CLASSES = 4
MICRO_BATCH = 4
ACCUMULATE = 4


class Encoder(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, nhead=4, dim_feedforward=4 * WIDTH, dropout=0.0,
            batch_first=True, norm_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.embed(ids) + self.position[: ids.shape[1]]
        return self.norm(self.layers(x))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(WIDTH, 1)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))

    def forward(self, hidden):
        weight = self.score(hidden).softmax(dim=1)
        return self.mlp((weight * hidden).sum(dim=1))


class TextClassifier(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = Head()

    def forward(self, ids):
        return self.head(self.encoder(ids))


def save_pretrained(path):
    """Stands for the downloaded checkpoint."""
    torch.manual_seed(123)
    torch.save(Encoder().state_dict(), path)


def make_texts(count=2048, seed=6):
    """Every class prefers its own quarter of the vocabulary."""
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=gen)
    anywhere = torch.randint(0, VOCAB, (count, LENGTH), generator=gen)
    quarter = VOCAB // CLASSES
    own = labels[:, None] * quarter + torch.randint(0, quarter, (count, LENGTH), generator=gen)
    use_own = torch.rand(count, LENGTH, generator=gen) < 0.5
    return torch.where(use_own, own, anywhere), labels


def micro_batches(ids, labels, seed=0):
    gen = torch.Generator().manual_seed(seed)
    while True:
        for chunk in torch.randperm(len(labels), generator=gen).split(MICRO_BATCH):
            yield ids[chunk], labels[chunk]


def build_model(checkpoint):
    encoder = Encoder()
    encoder.load_state_dict(torch.load(checkpoint))
    encoder.requires_grad_(False)
    return TextClassifier(encoder)


def train_step(model, opt, stream):
    """One optimizer update from ACCUMULATE micro-batches."""
    model.zero_grad()
    total = torch.zeros(())
    for _ in range(ACCUMULATE):
        ids, labels = next(stream)
        loss = F.cross_entropy(model(ids), labels) / ACCUMULATE
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.head.parameters(), 1.0)
    opt.step()
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as root:
        checkpoint = os.path.join(root, "encoder.pt")
        save_pretrained(checkpoint)
        torch.manual_seed(0)
        model = build_model(checkpoint)

    # the encoder stays as it is, only the head is trained
    opt = torch.optim.AdamW(model.head.parameters(), lr=1e-2)
    ids, labels = make_texts()
    stream = micro_batches(ids, labels)

    smoothed = None
    for _ in range(args.steps):
        loss = train_step(model, opt, stream).item()
        smoothed = loss if smoothed is None else 0.9 * smoothed + 0.1 * loss
    print(f"updates {args.steps} smoothed loss {smoothed:.5f}")


if __name__ == "__main__":
    main()
