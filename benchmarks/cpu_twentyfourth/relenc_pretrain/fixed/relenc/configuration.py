from dataclasses import asdict, dataclass


@dataclass
class RelEncConfig:
    vocab_size: int = 1000
    d_model: int = 128
    num_heads: int = 8
    d_ff: int = 256
    num_layers: int = 6
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    initializer_range: float = 0.02
    pad_token_id: int = 0
    mask_token_id: int = 1

    def to_dict(self):
        return asdict(self)
