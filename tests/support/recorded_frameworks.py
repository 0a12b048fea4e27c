"""Small trainings with the callbacks that docs/record.md shows, as it shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from support.paths import ROOT


def callback(name: str) -> Any:
    """The class *name* from the code blocks of docs/record.md."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "record.md").read_text(), re.DOTALL)
    (code,) = [block for block in blocks if f"class {name}(" in block]
    scope: dict[str, Any] = {}
    exec(code, scope)  # noqa: S102
    return scope[name]


def fit_lightning(path: Path, folder: Path) -> None:
    """Twenty steps of Lightning's Trainer."""
    import lightning
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, _number: int) -> Any:
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_steps=20, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder, callbacks=[callback("Record")(path)],
    )  # fmt: skip
    trainer.fit(Model(), DataLoader(TensorDataset(torch.ones(80, 4)), batch_size=2))


def train_transformers(path: Path, folder: Path) -> None:
    """Twenty steps of the Hugging Face Trainer."""
    import torch
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: Any, labels: Any = None) -> Any:
            return {"loss": (self.layer(x) - labels).square().mean()}

    rows = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(40)]
    arguments = TrainingArguments(
        output_dir=str(folder / "out"), max_steps=20, per_device_train_batch_size=2, use_cpu=True, report_to=[],
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    Trainer(Model(), arguments, train_dataset=rows, callbacks=[callback("RecordCallback")(path)]).train()
