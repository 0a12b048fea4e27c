import statistics
import time

import torch


class Callback:
    def on_fit_start(self, trainer, module): ...
    def on_epoch_start(self, trainer, module): ...
    def on_step_end(self, trainer, module, loss): ...
    def on_validation_end(self, trainer, module, val_loss): ...
    def on_fit_end(self, trainer, module): ...


class StepTimer(Callback):
    def __init__(self, skip=5):
        self.skip = skip
        self.times = []

    def on_epoch_start(self, trainer, module):
        self.tick = time.perf_counter()

    def on_step_end(self, trainer, module, loss):
        now = time.perf_counter()
        self.times.append(now - self.tick)
        self.tick = now

    @property
    def median_ms(self):
        return 1000 * statistics.median(self.times[self.skip:])


class LossHistory(Callback):
    def __init__(self, print_every=20):
        self.print_every = print_every
        self.losses = []

    def on_step_end(self, trainer, module, loss):
        self.losses.append(loss)
        if trainer.global_step % self.print_every == 0:
            print(f"epoch {trainer.epoch} step {trainer.global_step} loss {loss.item():.4f}")

    def recent(self, n=10):
        return torch.stack(self.losses[-n:]).mean().item()


class EarlyStopping(Callback):
    def __init__(self, patience=5):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def on_validation_end(self, trainer, module, val_loss):
        if val_loss < self.best:
            self.best, self.bad = val_loss, 0
        else:
            self.bad += 1
            trainer.should_stop = self.bad >= self.patience
