"""The same checks on inputs that coverage guides, for whoever has atheris: ``python fuzz/guided.py CORPUS -max_total_time=600``.

Bytes are read as a file; libFuzzer keeps those that reach new lines of ``advisor.reading`` and mutates them further. Its
options follow the corpus' folder, which is filled with the seeds of ``fuzz/seeds.py`` where it is empty. What fails ends the run,
and lies beside it as ``crash-…``. Needs ``pip install atheris``; nothing else of the project does.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

_LARGEST = 20_000  # a seed that is longer takes too long


def main() -> None:
    """Fill the corpus, and hand over to libFuzzer."""
    try:
        import atheris
    except ImportError:
        raise SystemExit("fuzz/guided.py needs atheris: pip install atheris") from None
    with atheris.instrument_imports(include=["advisor.reading"]):
        import advisor.trace  # noqa: F401
    from fuzz import checks
    from fuzz.seeds import prepare

    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit("name a folder for the corpus")
    corpus = Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="guided-"))
    if not any(corpus.iterdir()):
        prepare(scratch / "seeds")
        for path in (scratch / "seeds").iterdir():
            if path.stat().st_size <= _LARGEST:
                shutil.copy(path, corpus / path.name.replace(" ", "-"))
    path = scratch / "input.json"

    def run_input(content: bytes) -> None:
        path.write_bytes(content)
        checks.read(path)

    atheris.Setup(sys.argv, run_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
