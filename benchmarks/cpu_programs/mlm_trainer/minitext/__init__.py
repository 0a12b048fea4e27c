from .configuration import EncoderConfig, TrainingArguments
from .data import DataCollatorForMaskedLM, RandomTextDataset
from .modeling import EncoderForMaskedLM
from .trainer import Trainer

__all__ = [
    "DataCollatorForMaskedLM",
    "EncoderConfig",
    "EncoderForMaskedLM",
    "RandomTextDataset",
    "Trainer",
    "TrainingArguments",
]
