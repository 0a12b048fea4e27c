"""BiLSTM-CRF named entity tagger."""
import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "<START>", "<STOP>"]
START, STOP = TAGS.index("<START>"), TAGS.index("<STOP>")


class Sentences(Dataset):
    """Random words; entity words come from their own ranges of the vocabulary."""

    def __init__(self, n=256, vocab=2000, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            length = int(torch.randint(8, 20, (1,), generator=g))
            words = torch.randint(300, vocab, (length,), generator=g)
            tags = torch.zeros(length, dtype=torch.long)
            at = int(torch.randint(0, length - 2, (1,), generator=g))
            kind = int(torch.randint(0, 3, (1,), generator=g))
            words[at:at + 2] = torch.randint(100 * kind, 100 * kind + 100, (2,), generator=g)
            tags[at], tags[at + 1] = 1 + 2 * kind, 2 + 2 * kind
            self.items.append((words, tags))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class BiLSTMCRF(nn.Module):
    def __init__(self, vocab=2000, embedding=64, hidden=128):
        super().__init__()
        self.tagset_size = len(TAGS)
        self.word_embeds = nn.Embedding(vocab, embedding)
        self.lstm = nn.LSTM(embedding, hidden // 2, bidirectional=True)
        self.hidden2tag = nn.Linear(hidden, self.tagset_size)
        # transitions[i, j]: score of going to tag i from tag j
        self.transitions = nn.Parameter(torch.randn(self.tagset_size, self.tagset_size))
        self.transitions.data[START, :] = -10000
        self.transitions.data[:, STOP] = -10000

    def features(self, sentence):
        embeds = self.word_embeds(sentence).unsqueeze(1)
        return self.hidden2tag(self.lstm(embeds)[0].squeeze(1))

    def log_partition(self, feats):
        forward_var = torch.full((self.tagset_size,), -10000.0)
        forward_var[START] = 0.0
        for feat in feats:
            alphas = []
            for next_tag in range(self.tagset_size):
                scores = forward_var + self.transitions[next_tag] + feat[next_tag]
                alphas.append(torch.logsumexp(scores, dim=0))
            forward_var = torch.stack(alphas)
        return torch.logsumexp(forward_var + self.transitions[STOP], dim=0)

    def gold_score(self, feats, tags):
        previous = torch.cat([torch.tensor([START]), tags[:-1]])
        emit = feats.gather(1, tags.unsqueeze(1)).sum()
        return emit + self.transitions[tags, previous].sum() + self.transitions[STOP, tags[-1]]

    def neg_log_likelihood(self, sentence, tags):
        feats = self.features(sentence)
        return self.log_partition(feats) - self.gold_score(feats, tags)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(Sentences(), batch_size=args.batch_size, shuffle=True,
                        collate_fn=list, drop_last=True)
    model = BiLSTMCRF()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, weight_decay=1e-4)

    step, start = 0, time.perf_counter()
    while step < args.steps:
        for batch in loader:
            if step == 5:
                start = time.perf_counter()
            optimizer.zero_grad()
            loss = sum(model.neg_log_likelihood(words, tags) for words, tags in batch)
            loss = loss / len(batch)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step}: nll {loss.item():.4f}")
            if step >= args.steps:
                break
    elapsed = time.perf_counter() - start
    print(f"final nll {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, step - 5):.2f} ms")


if __name__ == "__main__":
    main()
