from .configuration_relformer import RelformerConfig
from .data_collator import DataCollatorWithPadding
from .modeling_relformer import RelformerForSequenceClassification, RelformerModel
from .trainer import Trainer, TrainingArguments

__all__ = ["RelformerConfig", "DataCollatorWithPadding", "RelformerForSequenceClassification", "RelformerModel",
           "Trainer", "TrainingArguments"]
