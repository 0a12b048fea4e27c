"""The glossary: words, causes and figures of answers, from the pages of ``docs/`` that define them."""

from __future__ import annotations

from advisor.regex import regex


def write() -> str:
    """Return the words of ``docs/frames.md``, the causes, and ``docs/figures.md`` without its links."""
    from advisor.report.causes import CAUSES
    from advisor.rulebook import shipped

    folder = shipped.folder("docs")
    frames, figures = ((folder / name).read_text(encoding="utf-8") for name in ("frames.md", "figures.md"))
    words = frames.partition("\n## Words\n")[2].partition("\n#")[0].strip()
    causes = "\n".join(f"- {cause}: {meaning}" for cause, meaning in CAUSES.items())
    return _LINK.sub(r"\1", f"# Words\n\n{words}\n\n# Causes\n\n{causes}\n\n{figures}")


_LINK = regex(r"\[([^\]]+)\]\([^)]+\)")
