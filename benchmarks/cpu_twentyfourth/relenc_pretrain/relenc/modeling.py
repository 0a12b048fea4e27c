"""Transformer encoder with one table of relative position biases shared by all layers."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class RelEncLayerNorm(nn.Module):
    """Scale only, no mean subtraction."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class RelativePositionBias(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_buckets = config.relative_attention_num_buckets
        self.max_distance = config.relative_attention_max_distance
        self.table = nn.Embedding(self.num_buckets, config.num_heads)

    def _bucket(self, relative_position):
        half = self.num_buckets // 2
        buckets = (relative_position > 0).long() * half
        distance = relative_position.abs()
        exact = half // 2
        large = exact + (
            torch.log(distance.clamp_min(1).float() / exact)
            / math.log(self.max_distance / exact) * (half - exact)
        ).long()
        large = large.clamp_max(half - 1)
        return buckets + torch.where(distance < exact, distance, large)

    def forward(self, length, device):
        position = torch.arange(length, device=device)
        buckets = self._bucket(position[None, :] - position[:, None])
        return self.table(buckets).permute(2, 0, 1).unsqueeze(0)


class RelEncAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_heads
        self.head_dim = config.d_model // config.num_heads
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.o = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(self, hidden, position_bias):
        b, t, d = hidden.shape
        qkv = self.qkv(hidden).view(b, t, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.head_dim ** -0.5
        weights = torch.softmax(scores + position_bias, dim=-1)
        context = torch.matmul(weights, v)
        return self.o(context.transpose(1, 2).reshape(b, t, d))


class RelEncFeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wi = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)

    def forward(self, hidden):
        return self.wo(F.relu(self.wi(hidden)))


class RelEncLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm = RelEncLayerNorm(config.d_model, config.layer_norm_epsilon)
        self.attention = RelEncAttention(config)
        self.ff_norm = RelEncLayerNorm(config.d_model, config.layer_norm_epsilon)
        self.ff = RelEncFeedForward(config)

    def forward(self, hidden, position_bias):
        hidden = hidden + self.attention(self.attention_norm(hidden), position_bias)
        return hidden + self.ff(self.ff_norm(hidden))


class RelEncModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.relative_bias = RelativePositionBias(config)
        self.layers = nn.ModuleList(RelEncLayer(config) for _ in range(config.num_layers))
        self.final_norm = RelEncLayerNorm(config.d_model, config.layer_norm_epsilon)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            position_bias = self.relative_bias(input_ids.size(1), input_ids.device)
            hidden = layer(hidden, position_bias)
        return self.final_norm(hidden)


class RelEncForMaskedLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.encoder = RelEncModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0.0, self.config.initializer_range)

    def forward(self, input_ids, labels=None):
        hidden = self.encoder(input_ids)
        if labels is None:
            return {"logits": self.lm_head(hidden)}
        chosen = labels != -100
        logits = self.lm_head(hidden[chosen])
        return {"loss": F.cross_entropy(logits, labels[chosen]), "logits": logits}
