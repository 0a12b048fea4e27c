import torch
import torch.nn as nn
import torch.nn.functional as F

from .score import VOCAB


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, past=None):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.norm2(x)), (k, v)


class MelodyModel(nn.Module):
    def __init__(self, width=96, heads=4, layers=3, max_len=160):
        super().__init__()
        self.token = nn.Embedding(VOCAB, width)
        self.position = nn.Embedding(max_len, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, VOCAB, bias=False)

    def forward(self, tokens):
        return self.extend(tokens)[0]

    def extend(self, tokens, past=None):
        """Logits and the keys and values so far; with past, tokens is one new token per row."""
        first = past[0][0].shape[2] if past else 0
        x = self.token(tokens) + self.position.weight[first:first + tokens.shape[1]]
        present = []
        for layer, kv in zip(self.layers, past or [None] * len(self.layers)):
            x, kv = layer(x, kv)
            present.append(kv)
        return self.out(self.norm(x)), present
