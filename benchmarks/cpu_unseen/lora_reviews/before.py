"""Fine-tune a frozen encoder on review sentiment with LoRA adapters."""
import argparse
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from model import Classifier, Encoder, add_lora


class Reviews(Dataset):
    """Token sequences; the first hundred words are positive, the next negative."""

    def __init__(self, n=512, length=32, vocab=4000, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 2, (n,), generator=g)
        self.ids = torch.randint(200, vocab, (n, length), generator=g)
        where = torch.rand(n, length, generator=g) < 0.25
        mood = torch.randint(0, 100, (n, length), generator=g) + 100 * self.labels[:, None]
        self.ids = torch.where(where, mood, self.ids)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


def trainable(model):
    return [p for p in model.parameters() if p.requires_grad]


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Reviews(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    encoder = add_lora(Encoder(), args.rank)
    model = Classifier(encoder)
    params = trainable(model)
    total = sum(p.numel() for p in model.parameters())
    print(f"training {sum(p.numel() for p in params):,} of {total:,} parameters")
    optimizer = torch.optim.AdamW(params, lr=args.lr)

    model.train()
    step, correct, seen = 0, 0, 0
    start = time.perf_counter()
    while step < args.steps:
        for ids, labels in loader:
            if step == 5:
                start = time.perf_counter()
            logits = model(ids)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == labels).sum().item()
            seen += labels.numel()
            step += 1
            if step % 25 == 0:
                print(f"step {step}: loss {loss.item():.4f}  acc {correct / seen:.3f}")
            if step >= args.steps:
                break
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, step - 5):.2f} ms")


if __name__ == "__main__":
    main()
