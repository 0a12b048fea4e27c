import torch


class Headlines:
    """Zipf-distributed token streams with masking on the fly."""

    PAD, MASK, FIRST = 0, 1, 4

    def __init__(self, vocab, n_docs, seq_len, seed):
        g = torch.Generator().manual_seed(seed)
        ranks = torch.arange(1, vocab - self.FIRST + 1, dtype=torch.float)
        self.docs = torch.multinomial(1 / ranks, n_docs * seq_len, replacement=True, generator=g)
        self.docs = self.docs.view(n_docs, seq_len) + self.FIRST
        lengths = torch.randint(seq_len // 2, seq_len + 1, (n_docs,), generator=g)
        self.docs[torch.arange(seq_len) >= lengths[:, None]] = self.PAD
        self.gen = g

    def batch(self, size):
        rows = torch.randint(0, len(self.docs), (size,), generator=self.gen)
        ids = self.docs[rows]
        chosen = (torch.rand(ids.shape, generator=self.gen) < 0.15) & (ids != self.PAD)
        labels = ids.masked_fill(~chosen, -100)
        inputs = ids.masked_fill(chosen, self.MASK)
        return inputs, labels
