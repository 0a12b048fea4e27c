import statistics
import time

import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, args, train_dataset, data_collator):
        self.model, self.args = model, args
        self.train_dataset, self.data_collator = train_dataset, data_collator
        self.optimizer = torch.optim.AdamW(self._parameter_groups(), lr=args.learning_rate, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._lr_lambda)
        self.step_times, self.losses = [], []

    def _parameter_groups(self):
        decay = [p for p in self.model.parameters() if p.dim() >= 2]
        no_decay = [p for p in self.model.parameters() if p.dim() < 2]
        return [{"params": decay, "weight_decay": self.args.weight_decay}, {"params": no_decay, "weight_decay": 0.0}]

    def _lr_lambda(self, step):
        if step < self.args.warmup_steps:
            return (step + 1) / self.args.warmup_steps
        return max(0.0, (self.args.max_steps - step) / max(1, self.args.max_steps - self.args.warmup_steps))

    def get_train_dataloader(self):
        generator = torch.Generator().manual_seed(self.args.seed)
        return DataLoader(self.train_dataset, batch_size=self.args.per_device_train_batch_size, shuffle=True,
                          collate_fn=self.data_collator, drop_last=True, generator=generator)

    def training_step(self, inputs):
        loss = self.model(**inputs)["loss"]
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach()

    def train(self):
        dataloader = self.get_train_dataloader()
        self.model.train()
        global_step = 0
        while global_step < self.args.max_steps:
            tick = time.perf_counter()
            for inputs in dataloader:
                self.losses.append(self.training_step(inputs))
                global_step += 1
                if global_step % self.args.logging_steps == 0:
                    print({"loss": round(self.losses[-1].item(), 4), "step": global_step})
                now = time.perf_counter()
                self.step_times.append(now - tick)
                tick = now
                if global_step >= self.args.max_steps:
                    break
        return {"train_loss": torch.stack(self.losses[-10:]).mean().item(),
                "median_step_ms": 1000 * statistics.median(self.step_times[5:])}
