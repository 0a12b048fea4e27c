from dataclasses import dataclass


@dataclass
class TicketConfig:
    vocab_size: int = 4096
    hidden_size: int = 96
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    intermediate_size: int = 384
    max_position_embeddings: int = 128
    num_labels: int = 5
    pad_token_id: int = 0
    cls_token_id: int = 1
    sep_token_id: int = 2
    layer_norm_eps: float = 1e-6
