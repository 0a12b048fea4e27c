"""Places in the source: which stack frames are the user's own.

A frame is the user's when it is not the standard library's, torch's or a known library's. Paths lose home directories
and everything up to ``site-packages``, always (:mod:`advisor.privacy`): what is left cannot name a person.
"""

from __future__ import annotations

import re
import sys

from msgspec import Struct

from advisor.privacy import STDLIB, clean_path
from advisor.regex import regex

# Top-level packages whose frames are not where a user would edit. Extended by `[tool.advisor] library`.
LIBRARIES = frozenset(
    {
        "torch", "torchvision", "torchaudio", "torchtext", "torchdata", "torchmetrics", "torchrec", "torchao",
        "torchtune", "functorch", "triton", "transformers", "accelerate", "datasets", "tokenizers", "huggingface_hub",
        "diffusers", "peft", "trl", "safetensors", "bitsandbytes", "timm", "lightning", "pytorch_lightning",
        "lightning_fabric", "lightning_utilities", "fabric", "ignite", "fastai", "composer", "deepspeed", "apex",
        "fairscale", "xformers", "flash_attn", "vllm", "sglang", "aiter", "einops", "numpy", "scipy", "pandas", "PIL", "cv2",
        "skimage", "sklearn", "matplotlib", "seaborn", "tqdm", "wandb", "tensorboard", "tensorboardX", "mlflow",
        "ray", "hydra", "omegaconf", "absl", "IPython", "ipykernel", "jupyter_client", "traitlets", "tornado", "zmq",
        "nest_asyncio", "decord", "av", "webdataset", "fsspec", "aiohttp", "requests", "urllib3", "yaml", "jinja2",
        "pydantic", "rich", "click", "attr", "attrs", "psutil", "joblib", "torch_geometric", "torch_sparse",
        "torch_scatter", "dgl", "mmcv", "mmengine", "detectron2", "kornia", "monai", "gpytorch", "botorch", "pyro",
        "transformer_engine", "nvtx", "pynvml", "uvloop", "uvicorn", "starlette", "fastapi", "pyarrow", "pytest",
        "pluggy", "_pytest", "advisor",
    }
)  # fmt: skip
# Scripts of users are often called like modules of the standard library.
_USER_SCRIPTS = frozenset(
    {"test", "code", "profile", "cmd", "main", "__main__", "trace", "sched", "statistics", "token"}
)
# Frames that stand on every stack and say nothing about the place.
_PLUMBING = frozenset(
    {
        "torch/utils/_device.py", "torch/nn/modules/module.py", "torch/utils/_contextlib.py",
        "torch/autograd/profiler.py", "torch/profiler/profiler.py", "torch/_ops.py", "torch/overrides.py",
        "torch/autograd/grad_mode.py", "contextlib.py", "torch/autograd/function.py", "torch/_jit_internal.py",
        "torch/_compile.py",
    }
)  # fmt: skip
# In these files a few functions do work of their own.
_WORKING = frozenset({"state_dict", "_save_to_state_dict", "load_state_dict", "_load_from_state_dict"})
_FRAME = regex(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$", re.DOTALL)


class Place(Struct, frozen=True):
    """One stack frame, cleaned."""

    file: str
    line: int
    function: str
    user: bool

    @property
    def text(self) -> str:
        """``file:line function``."""
        return f"{self.file}:{self.line} {self.function}"


_RECORDER = "advisor/record/"
"""Folder of the recorder, whose hooks stand between the program and torch: no place in either."""


def parse_frame(text: str, libraries: frozenset[str] = LIBRARIES) -> Place | None:
    """A frame written ``path(line): function``; None for built-ins, modules and anything else."""
    match = _FRAME.match(text)
    if not match:
        return None
    raw = match["file"].replace("\\", "/")
    path = clean_path(raw)
    if (path in _PLUMBING and match["function"] not in _WORKING) or path.startswith(("<frozen", _RECORDER)):
        return None
    return Place(path, min(int(match["line"][:9]), 1 << 30), match["function"], _is_user(raw, path, libraries))


def is_frame(text: str) -> bool:
    """Tell whether a name is that of a Python frame, one that :func:`parse_frame` passes over too."""
    return _FRAME.match(text) is not None


def _is_user(raw: str, path: str, libraries: frozenset[str]) -> bool:
    if path.startswith("<") and not path.startswith("<ipython"):
        return False
    if "site-packages/" in raw or "dist-packages/" in raw or STDLIB.match(raw):
        return False
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    if not parts or parts[0] == "torchinductor":
        return False
    top = parts[0].removesuffix(".py")
    if top in _USER_SCRIPTS:
        return True
    if top in sys.stdlib_module_names or top in libraries:
        return False
    # Installed in development mode or vendored: .../pytorch/torch/nn/modules/module.py
    return not any(f"/{name}/" in f"/{path}" for name in ("torch/nn", "torch/utils", "torch/autograd", "torch/_dynamo"))
