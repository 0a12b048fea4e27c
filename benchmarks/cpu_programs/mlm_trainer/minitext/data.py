import torch
from torch.utils.data import Dataset


class RandomTextDataset(Dataset):
    """Zipf-distributed token ids with a little local structure."""

    def __init__(self, config, length=2000, block_size=64, seed=0):
        g = torch.Generator().manual_seed(seed)
        weights = 1.0 / torch.arange(1, config.vocab_size - 1).float()
        ids = torch.multinomial(weights, length * block_size, replacement=True, generator=g) + 2
        ids = ids.view(length, block_size)
        ids[:, 1::4] = ids[:, 0::4]
        self.blocks = ids

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i]}


class DataCollatorForMaskedLM:
    def __init__(self, config, mlm_probability=0.15):
        self.config = config
        self.mlm_probability = mlm_probability

    def __call__(self, features):
        input_ids = torch.stack([f["input_ids"] for f in features])
        labels = input_ids.clone()
        masked = torch.rand(input_ids.shape) < self.mlm_probability
        labels[~masked] = -100
        replace = masked & (torch.rand(input_ids.shape) < 0.8)
        input_ids[replace] = self.config.mask_token_id
        return {"input_ids": input_ids, "labels": labels}
