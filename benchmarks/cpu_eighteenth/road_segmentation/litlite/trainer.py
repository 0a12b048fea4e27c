import time

import torch


class Trainer:
    def __init__(self, max_epochs, callbacks=(), gradient_clip_val=None, refresh_rate=10):
        self.max_epochs, self.callbacks = max_epochs, list(callbacks)
        self.gradient_clip_val, self.refresh_rate = gradient_clip_val, refresh_rate
        self.logged, self.bar_keys = {}, {}
        self.current_epoch = self.global_step = 0

    def _bar(self, batch_idx, total, since):
        values = " ".join(f"{k}={self.logged[k]:.4f}" for k in self.bar_keys)
        print(f"epoch {self.current_epoch} [{batch_idx + 1}/{total}] {(batch_idx + 1) / (time.perf_counter() - since):.2f}it/s {values}")

    def fit(self, module, train_loader, val_loader=None):
        module.trainer = self
        self.optimizer, self.scheduler = module.configure_optimizers()
        for self.current_epoch in range(self.max_epochs):
            module.train()
            module.on_train_epoch_start()
            since = time.perf_counter()
            for batch_idx, batch in enumerate(train_loader):
                self._training_batch(module, batch, batch_idx)
                if (batch_idx + 1) % self.refresh_rate == 0:
                    self._bar(batch_idx, len(train_loader), since)
            module.on_train_epoch_end()
            self._bar(batch_idx, len(train_loader), since)
            if val_loader is not None:
                self._validate(module, val_loader)

    def _training_batch(self, module, batch, batch_idx):
        loss = module.training_step(batch, batch_idx)
        self.optimizer.zero_grad()
        loss.backward()
        if self.gradient_clip_val:
            torch.nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
        self.optimizer.step()
        self.scheduler.step()
        self.global_step += 1
        for cb in self.callbacks:
            cb.on_train_batch_end(self, module, batch_idx)

    @torch.no_grad()
    def _validate(self, module, loader):
        module.eval()
        for batch_idx, batch in enumerate(loader):
            module.validation_step(batch, batch_idx)
        module.on_validation_epoch_end()
        for cb in self.callbacks:
            cb.on_validation_end(self, module)
        print("  " + " ".join(f"{k}={v:.4f}" for k, v in self.logged.items() if k.startswith("val_")))
