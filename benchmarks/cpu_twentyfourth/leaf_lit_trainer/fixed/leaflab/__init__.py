from .data import LeafDataModule
from .module import LeafClassifier
from .trainer import Callback, Trainer

__all__ = ["Callback", "LeafClassifier", "LeafDataModule", "Trainer"]
