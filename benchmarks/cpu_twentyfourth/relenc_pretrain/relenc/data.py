import torch
from torch.utils.data import Dataset


class SpanDataset(Dataset):
    """Token sequences from a first-order Markov source."""

    def __init__(self, num_sequences, length, vocab_size, seed=0):
        gen = torch.Generator().manual_seed(seed)
        successors = torch.randint(2, vocab_size, (vocab_size, 4), generator=gen)
        tokens = torch.randint(2, vocab_size, (num_sequences, 1), generator=gen)
        columns = [tokens[:, 0]]
        for _ in range(length - 1):
            pick = torch.randint(4, (num_sequences,), generator=gen)
            columns.append(successors[columns[-1], pick])
        self.tokens = torch.stack(columns, dim=1)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i]


def collate_masked(config, generator, p=0.15):
    def collate(rows):
        labels = torch.stack(rows)
        hit = torch.rand(labels.shape, generator=generator) < p
        input_ids = labels.masked_fill(hit, config.mask_token_id)
        return {"input_ids": input_ids, "labels": labels.masked_fill(~hit, -100)}
    return collate
