from .configuration import TicketBertConfig, TrainingArguments
from .data import TicketCollator, TicketDataset, make_tickets
from .modeling import TicketBertForSequenceClassification
from .tokenization import TicketTokenizer
from .trainer import Trainer

__all__ = ["TicketBertConfig", "TrainingArguments", "TicketCollator", "TicketDataset", "make_tickets",
           "TicketBertForSequenceClassification", "TicketTokenizer", "Trainer"]
