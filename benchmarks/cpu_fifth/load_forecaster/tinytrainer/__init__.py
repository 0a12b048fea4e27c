from .callbacks import Callback, EarlyStopping, LossHistory, StepTimer
from .module import TrainModule
from .trainer import Trainer

__all__ = ["Callback", "EarlyStopping", "LossHistory", "StepTimer", "TrainModule", "Trainer"]
