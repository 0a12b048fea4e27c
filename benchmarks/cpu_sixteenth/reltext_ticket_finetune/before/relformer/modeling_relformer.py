"""Encoder with bucketed relative position biases, shared by all layers (as in T5)."""
import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from torch.nn import functional as F

from .configuration_relformer import RelformerConfig


@dataclass
class SequenceClassifierOutput:
    loss: Optional[torch.Tensor] = None
    logits: Optional[torch.Tensor] = None


class RelformerRMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


class RelformerRelativeBias(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_buckets = config.relative_attention_num_buckets
        self.max_distance = config.relative_attention_max_distance
        self.relative_attention_bias = nn.Embedding(self.num_buckets, config.num_attention_heads)

    def _bucket(self, relative_position):
        half = self.num_buckets // 2
        buckets = (relative_position > 0).long() * half
        n = relative_position.abs()
        max_exact = half // 2
        large = max_exact + (
            torch.log(n.float() / max_exact) / math.log(self.max_distance / max_exact) * (half - max_exact)
        ).clamp(min=0).long()
        large = large.clamp(max=half - 1)
        return buckets + torch.where(n < max_exact, n, large)

    def forward(self, query_length, key_length, device=None):
        context = torch.arange(query_length, device=device)[:, None]
        memory = torch.arange(key_length, device=device)[None, :]
        buckets = self._bucket(memory - context)
        values = self.relative_attention_bias(buckets)
        return values.permute(2, 0, 1).unsqueeze(0)


class RelformerSelfAttention(nn.Module):
    def __init__(self, config, relative_bias):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.key = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.value = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.relative_bias = relative_bias

    def _heads(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, hidden_states, attention_mask=None):
        length = hidden_states.size(1)
        q, k, v = (self._heads(f(hidden_states)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2))
        position_bias = self.relative_bias(length, length, hidden_states.device)
        if attention_mask is not None:
            position_bias = position_bias + attention_mask
        probs = F.softmax(scores + position_bias, dim=-1)
        context = torch.matmul(probs, v).transpose(1, 2).flatten(2)
        return self.output(context)


class RelformerLayer(nn.Module):
    def __init__(self, config, relative_bias):
        super().__init__()
        self.attention_norm = RelformerRMSNorm(config.hidden_size, config.layer_norm_eps)
        self.attention = RelformerSelfAttention(config, relative_bias)
        self.ff_norm = RelformerRMSNorm(config.hidden_size, config.layer_norm_eps)
        self.wi = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.wo = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states, attention_mask=None):
        attn = self.attention(self.attention_norm(hidden_states), attention_mask)
        hidden_states = hidden_states + self.dropout(attn)
        ff = self.wo(F.relu(self.wi(self.ff_norm(hidden_states))))
        return hidden_states + self.dropout(ff)


class RelformerPreTrainedModel(nn.Module):
    config_class = RelformerConfig

    def __init__(self, config):
        super().__init__()
        self.config = config

    def post_init(self):
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=self.config.initializer_range)

    def num_parameters(self):
        return sum(p.numel() for p in self.parameters())


class RelformerModel(RelformerPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.relative_bias = RelformerRelativeBias(config)
        self.layer = nn.ModuleList(
            RelformerLayer(config, self.relative_bias) for _ in range(config.num_hidden_layers)
        )
        self.final_norm = RelformerRMSNorm(config.hidden_size, config.layer_norm_eps)

    def get_extended_attention_mask(self, mask):
        return (1.0 - mask[:, None, None, :].float()) * -1e4

    def forward(self, input_ids, attention_mask=None):
        hidden_states = self.embeddings(input_ids)
        if attention_mask is not None:
            attention_mask = self.get_extended_attention_mask(attention_mask)
        for layer in self.layer:
            hidden_states = layer(hidden_states, attention_mask)
        return self.final_norm(hidden_states)


class RelformerForSequenceClassification(RelformerPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.relformer = RelformerModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None):
        hidden = self.relformer(input_ids, attention_mask)
        weights = attention_mask.unsqueeze(-1).float()
        pooled = (hidden * weights).sum(1) / weights.sum(1)
        logits = self.classifier(pooled)
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return SequenceClassifierOutput(loss=loss, logits=logits)
