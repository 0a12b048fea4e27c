import re
import zlib

import torch

TOKEN = re.compile(r"\w+|[^\w\s]")


class TicketProcessor:
    """Turns raw tickets into model inputs (word hashing, special tokens, padding)."""

    def __init__(self, config):
        self.config = config
        self.cache = {}

    def token_id(self, word):
        if word not in self.cache:
            self.cache[word] = 3 + zlib.crc32(word.encode()) % (self.config.vocab_size - 3)
        return self.cache[word]

    def encode(self, text, max_length):
        ids = [self.token_id(word) for word in TOKEN.findall(text.lower())]
        return [self.config.cls_token_id, *ids[: max_length - 2], self.config.sep_token_id]

    def pad(self, rows, length):
        input_ids = torch.full((len(rows), length), self.config.pad_token_id)
        attention_mask = torch.zeros(len(rows), length, dtype=torch.bool)
        for i, row in enumerate(rows):
            input_ids[i, : len(row)] = torch.tensor(row)
            attention_mask[i, : len(row)] = True
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def __call__(self, texts, labels=None):
        max_length = self.config.max_position_embeddings
        rows = [self.encode(text, max_length) for text in texts]
        batch = self.pad(rows, max_length)
        if labels is not None:
            batch["labels"] = torch.tensor(labels)
        return batch
