"""Headlines from news articles: GRU encoder, additive attention, greedy decoder."""
import argparse
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Settings:
    vocab: int = 4000
    embed: int = 96
    hidden: int = 192
    attention: int = 192
    max_len: int = 16
    bos: int = 1
    seed: int = 13


class ArticleEncoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Embedding(s.vocab, s.embed)
        self.gru = nn.GRU(s.embed, s.hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * s.hidden, s.hidden)

    def forward(self, article):
        states, last = self.gru(self.embed(article))
        init = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))
        return states, init


class AdditiveAttention(nn.Module):
    """score(q, k) = v . tanh(W q + U k)"""

    def __init__(self, query_dim, key_dim, dim):
        super().__init__()
        self.W = nn.Linear(query_dim, dim, bias=False)
        self.U = nn.Linear(key_dim, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, query, keys, mask):
        energy = torch.tanh(self.W(query).unsqueeze(1) + self.U(keys))
        scores = self.v(energy).squeeze(2).masked_fill(mask, float("-inf"))
        weights = scores.softmax(dim=1)
        context = torch.bmm(weights.unsqueeze(1), keys).squeeze(1)
        return context, weights


class HeadlineDecoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Embedding(s.vocab, s.embed)
        self.attention = AdditiveAttention(s.hidden, 2 * s.hidden, s.attention)
        self.cell = nn.GRUCell(s.embed + 2 * s.hidden, s.hidden)
        self.out = nn.Linear(s.hidden, s.vocab)

    def forward(self, token, hidden, states, mask):
        context, weights = self.attention(hidden, states, mask)
        hidden = self.cell(torch.cat([self.embed(token), context], dim=1), hidden)
        return self.out(hidden), hidden, weights


class HeadlineWriter(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.settings = s
        self.encoder = ArticleEncoder(s)
        self.decoder = HeadlineDecoder(s)

    @torch.inference_mode()
    def write(self, article, mask):
        """Greedy headlines and their mean log-probability, one row per article."""
        states, hidden = self.encoder(article)
        token = torch.full((len(article),), self.settings.bos)
        total = torch.zeros(len(article))
        tokens = []
        for _ in range(self.settings.max_len):
            logits, hidden, _ = self.decoder(token, hidden, states, mask)
            best, token = logits.log_softmax(dim=1).max(dim=1)
            total += best
            tokens.append(token)
        return torch.stack(tokens, dim=1), total / self.settings.max_len


class NewsFeed:
    """Batches of tokenised articles of similar length, padded to the longest."""

    def __init__(self, s, batch=12, seed=3):
        self.s, self.batch = s, batch
        self.gen = torch.Generator().manual_seed(seed)
        self.frequency = 1.0 / torch.arange(3, s.vocab).float()

    def __iter__(self):
        while True:
            longest = int(torch.randint(70, 100, (1,), generator=self.gen))
            lengths = torch.randint(longest - 8, longest + 1, (self.batch,), generator=self.gen)
            lengths[0] = longest
            words = torch.multinomial(self.frequency, self.batch * longest, True, generator=self.gen) + 3
            article = words.view(self.batch, longest)
            mask = torch.arange(longest) >= lengths[:, None]
            yield article.masked_fill(mask, 0), mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    settings = Settings()
    torch.manual_seed(settings.seed)
    writer = HeadlineWriter(settings).eval()
    scores = []
    for _, (article, mask) in zip(range(args.steps), NewsFeed(settings)):
        _, score = writer.write(article, mask)
        scores.append(score)
    print(f"batches {args.steps}  mean log-prob {torch.cat(scores).mean().item():.4f}")


if __name__ == "__main__":
    main()
