from dataclasses import dataclass


@dataclass
class TicketBertConfig:
    vocab_size: int = 1000
    hidden_size: int = 128
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    intermediate_size: int = 512
    max_position_embeddings: int = 128
    layer_norm_eps: float = 1e-6
    pad_token_id: int = 0
    num_labels: int = 5


@dataclass
class TrainingArguments:
    max_steps: int = 40
    per_device_train_batch_size: int = 16
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    warmup_steps: int = 10
    max_grad_norm: float = 1.0
    logging_steps: int = 20
    seed: int = 42
    num_threads: int = 1
