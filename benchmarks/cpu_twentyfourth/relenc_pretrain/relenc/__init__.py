from .configuration import RelEncConfig
from .data import SpanDataset, collate_masked
from .modeling import RelEncForMaskedLM, RelEncModel
from .training import Trainer, TrainingArguments

__all__ = ["RelEncConfig", "RelEncForMaskedLM", "RelEncModel", "SpanDataset", "Trainer",
           "TrainingArguments", "collate_masked"]
