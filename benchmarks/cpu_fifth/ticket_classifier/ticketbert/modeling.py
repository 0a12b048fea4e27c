import torch
import torch.nn as nn
import torch.nn.functional as F


class TicketBertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings), persistent=False)

    def forward(self, input_ids):
        positions = self.position_embeddings(self.position_ids[:input_ids.size(1)])
        return self.LayerNorm(self.word_embeddings(input_ids) + positions)


class TicketBertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states, attention_mask):
        b, t, d = hidden_states.shape
        q, k, v = self.qkv(hidden_states).view(b, t, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask)
        return self.output(context.transpose(1, 2).reshape(b, t, d))


class TicketBertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention = TicketBertSelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states, attention_mask):
        hidden_states = self.attention_norm(hidden_states + self.attention(hidden_states, attention_mask))
        ff = self.output(F.gelu(self.intermediate(hidden_states)))
        return self.output_norm(hidden_states + ff)


class TicketBertModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embeddings = TicketBertEmbeddings(config)
        self.layers = nn.ModuleList([TicketBertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, input_ids, attention_mask):
        hidden_states = self.embeddings(input_ids)
        extended_mask = attention_mask[:, None, None, :]
        for layer in self.layers:
            hidden_states = layer(hidden_states, extended_mask)
        return hidden_states


class TicketBertForSequenceClassification(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.bert = TicketBertModel(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, input_ids, attention_mask, labels=None):
        hidden_states = self.bert(input_ids, attention_mask)
        logits = self.classifier(hidden_states[:, 0])
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}
