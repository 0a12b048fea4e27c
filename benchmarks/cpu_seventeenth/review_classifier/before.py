"""Star-rating classification of reviews: word-piece style tokenizer, bucketed batches and a
small Transformer encoder."""
import argparse
import bisect
import collections
import random
import re
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

SYLLABLES = ["ba", "con", "der", "el", "fi", "gra", "ho", "in", "ju", "ka", "lo", "men", "ne", "or", "pra", "qui",
             "ra", "sto", "ti", "un", "ver", "wo", "xi", "yo", "zen"]


def make_corpus(n, n_classes, seed):
    rng = random.Random(seed)
    lexicon = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(3000)]
    tone = [rng.sample(lexicon, 40) for _ in range(n_classes)]
    weights = [1.0 / (i + 5) for i in range(len(lexicon))]
    texts, labels = [], []
    for _ in range(n):
        y = rng.randrange(n_classes)
        length = min(max(int(rng.lognormvariate(4.0, 0.7)), 6), 300)
        words = rng.choices(lexicon, weights, k=length)
        for k in range(0, length, 6):
            words[k] = rng.choice(tone[y])
        for k in range(9, length, 10):
            words[k] += rng.choice([",", ".", "!"])
        texts.append(" ".join(words).capitalize())
        labels.append(y)
    return texts, labels


class Tokenizer:
    PATTERN = re.compile(r"\w+|[^\w\s]")

    def __init__(self, max_vocab=2000, max_len=256):
        self.max_vocab, self.max_len = max_vocab, max_len
        self.vocab = {"<pad>": 0, "<unk>": 1, "<cls>": 2}

    def fit(self, texts):
        counts = collections.Counter()
        for t in texts:
            counts.update(self.PATTERN.findall(t.lower()))
        for w, _ in counts.most_common(self.max_vocab - len(self.vocab)):
            self.vocab[w] = len(self.vocab)
        return self

    def encode(self, text):
        ids = [self.vocab.get(w, 1) for w in self.PATTERN.findall(text.lower())]
        return [2] + ids[:self.max_len - 1]


class ReviewDataset(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.texts, self.labels = texts, labels
        self.ids = [tokenizer.encode(t) for t in texts]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


class BucketBatchSampler(Sampler):
    """Shuffled batches whose reviews come from the same length bucket."""

    def __init__(self, lengths, batch_size, boundaries, seed=0):
        self.batch_size, self.seed, self.epoch = batch_size, seed, 0
        self.buckets = collections.defaultdict(list)
        for i, n in enumerate(lengths):
            self.buckets[bisect.bisect_left(boundaries, n)].append(i)

    def __iter__(self):
        rng = random.Random(self.seed + self.epoch)
        self.epoch += 1
        batches = []
        for ids in self.buckets.values():
            ids = ids[:]
            rng.shuffle(ids)
            batches += [ids[k:k + self.batch_size] for k in range(0, len(ids), self.batch_size)]
        rng.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return sum(-(-len(v) // self.batch_size) for v in self.buckets.values())


def collate(batch):
    width = max(len(ids) for ids, _ in batch)
    x = torch.zeros(len(batch), width, dtype=torch.long)
    for r, (ids, _) in enumerate(batch):
        x[r, :len(ids)] = torch.tensor(ids)
    return x, torch.tensor([y for _, y in batch])


class Layer(nn.Module):
    def __init__(self, dim, heads, ffn, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(), nn.Linear(ffn, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.drop(self.proj(a.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.ff(self.n2(x)))


class Classifier(nn.Module):
    def __init__(self, vocab, n_classes, dim=96, heads=4, ffn=192, layers=2, max_len=256, dropout=0.1):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(0.02 * torch.randn(max_len, dim))
        self.layers = nn.ModuleList(Layer(dim, heads, ffn, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, n_classes)

    def forward(self, ids):
        mask = (ids != 0)[:, None, None, :]
        x = self.tok(ids) + self.pos[:ids.size(1)]
        for layer in self.layers:
            x = layer(x, mask)
        return self.out(self.norm(x[:, 0]))


def accuracy(model, loader):
    model.eval()
    right = n = 0
    with torch.inference_mode():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            n += len(y)
    model.train()
    return right / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--reviews", type=int, default=1300)
    ap.add_argument("--classes", type=int, default=5)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    texts, labels = make_corpus(args.reviews + 100, args.classes, seed=4)
    train_x, train_y = texts[:args.reviews], labels[:args.reviews]
    tokenizer = Tokenizer().fit(train_x)
    train = ReviewDataset(train_x, train_y, tokenizer)
    valid = ReviewDataset(texts[args.reviews:], labels[args.reviews:], tokenizer)
    sampler = BucketBatchSampler([len(t) for t in train.texts], args.batch_size,
                                 boundaries=[24, 40, 56, 80, 120, 180, 256])
    loader = DataLoader(train, batch_sampler=sampler, collate_fn=collate)
    valid_loader = DataLoader(valid, batch_size=20, collate_fn=collate)
    model = Classifier(len(tokenizer.vocab), args.classes)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps = args.epochs * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / 6, (steps - s) / steps))
    print(f"{len(train)} reviews, {len(loader)} batches per epoch, vocabulary {len(tokenizer.vocab)}")
    start, seen, avg = time.time(), 0, 0.0
    for epoch in range(args.epochs):
        for step, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            seen += len(y)
            avg = loss.item() if avg == 0 else 0.95 * avg + 0.05 * loss.item()
            if step % 10 == 9:
                print(f"| epoch {epoch} | {step + 1:3d}/{len(loader)} | loss {avg:.4f} "
                      f"| {seen / (time.time() - start):.1f} reviews/s")
    took = time.time() - start
    print(f"validation accuracy {accuracy(model, valid_loader):.3f}, trained in {took:.1f}s")


if __name__ == "__main__":
    main()
