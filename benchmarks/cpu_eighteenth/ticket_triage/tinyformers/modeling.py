from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class EncoderConfig:
    vocab_size: int = 4000
    hidden_size: int = 96
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    intermediate_size: int = 288
    max_position_embeddings: int = 256
    hidden_dropout_prob: float = 0.0
    num_labels: int = 2


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.output = nn.Linear(d, d)
        self.attention_norm, self.output_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, config.intermediate_size), nn.Linear(config.intermediate_size, d)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def _heads(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.num_heads, d // self.num_heads).transpose(1, 2)

    def forward(self, hidden, mask):
        b, t, d = hidden.shape
        ctx = F.scaled_dot_product_attention(
            self._heads(self.query(hidden)), self._heads(self.key(hidden)), self._heads(self.value(hidden)), attn_mask=mask)
        hidden = self.attention_norm(hidden + self.dropout(self.output(ctx.transpose(1, 2).reshape(b, t, d))))
        return self.output_norm(hidden + self.dropout(self.down(F.gelu(self.up(hidden)))))


class EncoderForSequenceClassification(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.embedding_norm = nn.LayerNorm(config.hidden_size)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.05)

    def forward(self, input_ids, attention_mask, labels=None):
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden = self.embedding_norm(self.word_embeddings(input_ids) + self.position_embeddings(positions))
        mask = attention_mask[:, None, None, :].bool()
        for layer in self.layers:
            hidden = layer(hidden, mask)
        logits = self.classifier(torch.tanh(self.pooler(hidden[:, 0])))
        out = {"logits": logits}
        if labels is not None:
            out["loss"] = F.cross_entropy(logits, labels)
        return out
