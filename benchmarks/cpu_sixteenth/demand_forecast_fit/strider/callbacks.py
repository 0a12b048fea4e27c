import os
import time

import torch


class Callback:
    def on_fit_start(self, trainer, module):
        pass

    def on_train_batch_end(self, trainer, module, batch_idx):
        pass

    def on_validation_end(self, trainer, module, metrics):
        pass


class ProgressPrinter(Callback):
    def __init__(self, every_n_steps=10):
        self.every = every_n_steps

    def on_fit_start(self, trainer, module):
        self.t = time.perf_counter()
        n = sum(p.numel() for p in module.parameters())
        print(f"{type(module).__name__}: {n / 1e3:.1f} K parameters")

    def on_train_batch_end(self, trainer, module, batch_idx):
        if trainer.global_step % self.every == 0:
            now = time.perf_counter()
            values = " ".join(f"{k}={v:.4f}" for k, v in trainer.pop_logged().items())
            print(f"epoch {trainer.current_epoch} step {trainer.global_step}: {values} "
                  f"({(now - self.t) / self.every * 1e3:.0f} ms/step)", flush=True)
            self.t = now


class ModelCheckpoint(Callback):
    def __init__(self, dirpath, monitor, mode="min"):
        self.path = os.path.join(dirpath, "best.ckpt")
        self.monitor, self.sign = monitor, 1 if mode == "min" else -1
        self.best = float("inf")

    def on_validation_end(self, trainer, module, metrics):
        score = self.sign * metrics[self.monitor]
        if score < self.best:
            self.best = score
            torch.save({"state_dict": module.state_dict(), "step": trainer.global_step}, self.path)


class EarlyStopping(Callback):
    def __init__(self, monitor, patience=3, min_delta=0.0):
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.best, self.bad = float("inf"), 0

    def on_validation_end(self, trainer, module, metrics):
        if metrics[self.monitor] < self.best - self.min_delta:
            self.best, self.bad = metrics[self.monitor], 0
        else:
            self.bad += 1
            trainer.should_stop = self.bad >= self.patience
