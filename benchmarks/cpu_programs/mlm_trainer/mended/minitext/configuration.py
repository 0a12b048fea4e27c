from dataclasses import dataclass


@dataclass
class EncoderConfig:
    vocab_size: int = 8192
    hidden_size: int = 128
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    intermediate_size: int = 512
    max_position_embeddings: int = 128
    hidden_dropout_prob: float = 0.1
    pad_token_id: int = 0
    mask_token_id: int = 1


@dataclass
class TrainingArguments:
    max_steps: int = 40
    per_device_train_batch_size: int = 16
    learning_rate: float = 3e-4
    weight_decay: float = 0.01
    warmup_steps: int = 10
    max_grad_norm: float = 1.0
    logging_steps: int = 10
    seed: int = 42
