from .metrics import BinaryAUROC, BinaryLogLoss
from .module import TaskModule
from .trainer import ProgressLogger, Trainer

__all__ = ["BinaryAUROC", "BinaryLogLoss", "ProgressLogger", "TaskModule", "Trainer"]
