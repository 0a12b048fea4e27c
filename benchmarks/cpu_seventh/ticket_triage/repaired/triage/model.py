import torch
import torch.nn as nn

from .data import MAX_LEN, PAD


class Router(nn.Module):
    """Small transformer encoder, masked mean pooling, one linear layer on top."""

    def __init__(self, vocab, classes, width=96, heads=4, layers=2):
        super().__init__()
        self.token = nn.Embedding(vocab, width, padding_idx=PAD)
        self.position = nn.Embedding(MAX_LEN, width)
        layer = nn.TransformerEncoderLayer(width, heads, 3 * width, dropout=0.0,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, classes)

    def forward(self, ids):
        pad = ids == PAD
        x = self.token(ids) + self.position.weight[:ids.shape[1]]
        x = self.norm(self.encoder(x, src_key_padding_mask=pad))
        keep = (~pad).unsqueeze(-1)
        return self.out((x * keep).sum(1) / keep.sum(1))
