from .callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from .metrics import BinaryAveragePrecision, MeanMetric
from .module import LiteModule
from .trainer import Trainer
