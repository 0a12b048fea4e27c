"""Phrase translation with the classic GRU encoder-decoder, trained with teacher forcing."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, SOS, EOS = 0, 1, 2
SRC_VOCAB = 3000
TGT_VOCAB = 4000
HIDDEN = 128
BATCH = 12


def make_corpus(n=4000, seed=7):
    """Source phrases, 'translated' by a word map with local swaps and some two-word renderings."""
    rng = random.Random(seed)
    word_map = [rng.randrange(3, TGT_VOCAB) for _ in range(SRC_VOCAB)]
    particle = {w: rng.randrange(3, TGT_VOCAB) for w in range(SRC_VOCAB) if rng.random() < 0.25}
    corpus = []
    for _ in range(n):
        src = [min(int(rng.paretovariate(0.6)) + 2, SRC_VOCAB - 1) for _ in range(rng.randint(11, 16))]
        tgt = []
        for w in src:
            tgt.append(word_map[w])
            if w in particle:
                tgt.append(particle[w])
        for i in range(0, len(tgt) - 1, 3):
            tgt[i], tgt[i + 1] = tgt[i + 1], tgt[i]
        corpus.append((src, tgt))
    return corpus


def pad(rows):
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(r) for r in rows], batch_first=True, padding_value=PAD
    )


def batches(corpus, seed=1):
    """Endless shuffled batches; phrases of similar length travel together."""
    rng = random.Random(seed)
    by_length = sorted(corpus, key=lambda pair: (len(pair[0]), len(pair[1])), reverse=True)
    starts = list(range(0, len(by_length) - BATCH + 1, BATCH))
    while True:
        rng.shuffle(starts)
        for start in starts:
            picked = by_length[start : start + BATCH]
            lengths = torch.tensor([len(src) for src, _ in picked])
            source = pad([src for src, _ in picked])
            target = pad([[SOS] + tgt + [EOS] for _, tgt in picked])
            yield source, lengths, target


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SRC_VOCAB, HIDDEN, padding_idx=PAD)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(source), lengths, batch_first=True)
        _, hidden = self.gru(packed)
        return hidden


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TGT_VOCAB, HIDDEN, padding_idx=PAD)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, TGT_VOCAB)

    def forward(self, tokens, hidden):
        output, hidden = self.gru(self.embed(tokens), hidden)
        return self.out(output), hidden


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, source, lengths, target):
        hidden = self.encoder(source, lengths)
        outputs = []
        for t in range(target.size(1) - 1):
            # teacher forcing: feed the true previous word
            logits, hidden = self.decoder(target[:, t : t + 1], hidden)
            outputs.append(logits)
        return torch.cat(outputs, dim=1)


def train(model, stream, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    model.train()
    total = 0.0
    for _ in range(steps):
        source, lengths, target = next(stream)
        logits = model(source, lengths, target)
        loss = F.cross_entropy(
            logits.reshape(-1, TGT_VOCAB), target[:, 1:].reshape(-1), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    corpus = make_corpus()
    model = Seq2Seq()
    loss = train(model, batches(corpus), args.steps)
    print(f"average loss over {args.steps} steps: {loss:.4f}")


if __name__ == "__main__":
    main()
