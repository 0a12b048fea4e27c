import time


class Callback:
    def on_train_epoch_start(self, trainer, module):
        pass

    def on_train_batch_end(self, trainer, module, outputs):
        pass

    def on_train_epoch_end(self, trainer, module):
        pass


class MetricTracker(Callback):
    """Feeds the module's metrics and writes them into its log."""

    def on_train_epoch_start(self, trainer, module):
        for metric in trainer.metrics.values():
            metric.reset()

    def on_train_batch_end(self, trainer, module, outputs):
        for name, metric in trainer.metrics.items():
            metric.update(outputs["scores"], outputs["targets"])

    def on_train_epoch_end(self, trainer, module):
        for name, metric in trainer.metrics.items():
            module.log(name + "_epoch", metric.compute())


class ProgressLogger(Callback):
    def __init__(self, every_n_steps=50):
        self.every_n_steps = every_n_steps
        self.start = time.time()

    def show(self, prefix, module):
        values = "  ".join(f"{k} {v:.4f}" for k, v in sorted(module.logged.items()))
        print(f"{prefix}  {values}  ({time.time() - self.start:.1f}s)")

    def on_train_batch_end(self, trainer, module, outputs):
        if trainer.global_step % self.every_n_steps == 0:
            self.show(f"step {trainer.global_step}", module)

    def on_train_epoch_end(self, trainer, module):
        self.show(f"epoch {trainer.current_epoch}", module)


class Trainer:
    def __init__(self, max_steps, callbacks=()):
        self.max_steps = max_steps
        self.callbacks = [MetricTracker(), *callbacks]
        self.global_step = 0
        self.current_epoch = 0
        self.metrics = {}

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self, module, loader):
        optimizer, scheduler = module.configure_optimizers()
        self.metrics = module.train_metrics()
        while self.global_step < self.max_steps:
            module.train()
            self.call("on_train_epoch_start", module)
            for batch_idx, batch in enumerate(loader):
                outputs = module.training_step(batch, batch_idx)
                optimizer.zero_grad()
                outputs["loss"].backward()
                optimizer.step()
                scheduler.step()
                self.global_step += 1
                self.call("on_train_batch_end", module, outputs)
                if self.global_step >= self.max_steps:
                    break
            self.current_epoch += 1
            self.call("on_train_epoch_end", module)
