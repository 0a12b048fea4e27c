from .modeling import EncoderConfig, EncoderForSequenceClassification
from .tokenization import WordTokenizer
from .trainer import Trainer, TrainingArguments, default_collate, DataCollatorWithPadding

__all__ = ["EncoderConfig", "EncoderForSequenceClassification", "WordTokenizer", "Trainer", "TrainingArguments",
           "default_collate", "DataCollatorWithPadding"]
