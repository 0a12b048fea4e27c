"""Places in the source: which stack frames are the user's own, and what of a path may be shown.

A frame is the user's when it is not the standard library's, torch's or a known library's. Paths lose home directories
and everything up to ``site-packages``, always: what is left cannot name a person.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

# Top-level packages whose frames are not where a user would edit. Extended by `[tool.advisor] library`.
LIBRARIES = frozenset(
    {
        "torch", "torchvision", "torchaudio", "torchtext", "torchdata", "torchmetrics", "torchrec", "torchao",
        "torchtune", "functorch", "triton", "transformers", "accelerate", "datasets", "tokenizers", "huggingface_hub",
        "diffusers", "peft", "trl", "safetensors", "bitsandbytes", "timm", "lightning", "pytorch_lightning",
        "lightning_fabric", "lightning_utilities", "fabric", "ignite", "fastai", "composer", "deepspeed", "apex",
        "fairscale", "xformers", "flash_attn", "vllm", "sglang", "einops", "numpy", "scipy", "pandas", "PIL", "cv2",
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
_FRAME = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$", re.DOTALL)
_PACKAGES = re.compile(r"^.*?(?:site-packages|dist-packages)/")
_STDLIB = re.compile(r"^.*?/lib/python\d(?:\.\d+)?/|^.*?/python\d(?:\.\d+)?/lib/")
_HOME = re.compile(r"^(?:[A-Za-z]:)?/*(?:home|Users|users|root(?=/))(?:/|$)(?:(?<=root/)|[^/]+/)")
# What torch.compile writes: no source of the user's, in a folder that is named after the user.
_GENERATED = re.compile(r"^(?:.*/)?torchinductor(?:_[^/]*)?/")
_HOME_ANYWHERE = re.compile(r"^.*?/(?:home|Users)/[^/]+/")


# A home directory, wherever in a text it stands: /home/alice/, /Users/alice/, C:\\Users\\alice\\, ~alice/, and the
# places where clusters keep their users' files. Anchored and greedy, so that hostile text costs one pass.
_PATH = re.compile(r"[^\s\"'();,]+")
_PERSONAL = re.compile(
    r"^.*(?:[/\\](?:home|[Uu]sers?|scratch|fsx|lustre|gpfs|netscratch)[/\\]+[^/\\]+[/\\]+|~[\w.-]*[/\\]+)|^/+root/+"
)
_OWNER = re.compile(r"torchinductor_[^/\\]*")
_MARKS = ("home", "sers", "user", "scratch", "fsx", "lustre", "gpfs", "~", "root/", "torchinductor_")


def scrub(text: str) -> str:
    """*text* without the home directories in it: what a name or a stack holds of a path must not name a person."""
    if not any(mark in text for mark in _MARKS):
        return text
    return _PATH.sub(lambda word: _PERSONAL.sub("", _OWNER.sub("torchinductor", word[0]), count=1), text)


@dataclass(frozen=True)
class Place:
    """One stack frame, cleaned."""

    file: str
    line: int
    function: str
    user: bool

    @property
    def text(self) -> str:
        """``file:line function``."""
        return f"{self.file}:{self.line} {self.function}"


def clean_path(path: str) -> str:
    """*path* without home directory and without everything up to site-packages."""
    path = path.replace("\\", "/")
    if "torchinductor" in path and (generated := _GENERATED.match(path)):
        return "torchinductor/" + path[generated.end() :]
    shorter = _PACKAGES.sub("", path, count=1)
    if shorter != path:
        return shorter
    shorter = _STDLIB.sub("", path, count=1)
    if shorter != path:
        return shorter
    shorter = _HOME.sub("", path, count=1)
    return _HOME_ANYWHERE.sub("", shorter, count=1)


def parse_frame(text: str, libraries: frozenset[str] = LIBRARIES) -> Place | None:
    """A frame written ``path(line): function``; None for built-ins, modules and anything else."""
    match = _FRAME.match(text)
    if not match:
        return None
    raw = match["file"].replace("\\", "/")
    path = clean_path(raw)
    if path in _PLUMBING or path.startswith("<frozen"):
        return None
    return Place(path, min(int(match["line"][:9]), 1 << 30), match["function"], _is_user(raw, path, libraries))


def _is_user(raw: str, path: str, libraries: frozenset[str]) -> bool:
    if path.startswith("<") and not path.startswith("<ipython"):
        return False
    if "site-packages/" in raw or "dist-packages/" in raw or _STDLIB.match(raw):
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
