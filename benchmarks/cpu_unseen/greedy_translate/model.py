"""Sequence-to-sequence transformer."""
import math

import torch
import torch.nn as nn


def sinusoids(length, dim):
    position = torch.arange(length).unsqueeze(1)
    div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(position * div)
    table[:, 1::2] = torch.cos(position * div)
    return table


class Seq2Seq(nn.Module):
    def __init__(self, vocab, dim=128, heads=4, layers=3, ff=512, max_len=128):
        super().__init__()
        self.dim = dim
        self.src_embed = nn.Embedding(vocab, dim)
        self.tgt_embed = nn.Embedding(vocab, dim)
        self.register_buffer("table", sinusoids(max_len, dim))
        encoder_layer = nn.TransformerEncoderLayer(dim, heads, ff, 0.1, batch_first=True)
        decoder_layer = nn.TransformerDecoderLayer(dim, heads, ff, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(encoder_layer, layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder_layer, layers)
        self.generator = nn.Linear(dim, vocab)

    def embed(self, table, ids):
        return table(ids) * math.sqrt(self.dim) + self.table[: ids.size(1)]

    def encode(self, src, src_padding):
        return self.encoder(self.embed(self.src_embed, src), src_key_padding_mask=src_padding)

    def decode(self, tgt, memory, src_padding):
        causal = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)
        hidden = self.decoder(self.embed(self.tgt_embed, tgt), memory, tgt_mask=causal,
                              memory_key_padding_mask=src_padding)
        return self.generator(hidden)

    def forward(self, src, tgt, src_padding):
        return self.decode(tgt, self.encode(src, src_padding), src_padding)
