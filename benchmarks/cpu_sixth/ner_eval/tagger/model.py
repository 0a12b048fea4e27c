"""Transformer token classifier."""
import torch
from torch import nn


class TokenTagger(nn.Module):
    def __init__(self, vocab, num_tags, dim=128, heads=4, layers=2, max_len=128):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 2, dropout=0.1, batch_first=True,
                                           activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(dim, num_tags)

    def forward(self, tokens):
        pad = tokens.eq(0)
        x = self.tok(tokens) + self.pos(torch.arange(tokens.shape[1]))
        return self.head(self.encoder(x, src_key_padding_mask=pad))
