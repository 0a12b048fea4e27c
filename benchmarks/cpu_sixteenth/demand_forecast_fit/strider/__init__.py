from .callbacks import Callback, EarlyStopping, ModelCheckpoint, ProgressPrinter
from .data import DataModule
from .module import StriderModule
from .trainer import Trainer

__all__ = ["Callback", "DataModule", "EarlyStopping", "ModelCheckpoint", "ProgressPrinter", "StriderModule", "Trainer"]
