from dataclasses import asdict, dataclass


@dataclass
class RelformerConfig:
    vocab_size: int = 6000
    hidden_size: int = 96
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    intermediate_size: int = 256
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    hidden_dropout_prob: float = 0.1
    layer_norm_eps: float = 1e-6
    initializer_range: float = 0.03
    pad_token_id: int = 0
    num_labels: int = 8
    model_type: str = "relformer"

    def to_dict(self):
        return asdict(self)
