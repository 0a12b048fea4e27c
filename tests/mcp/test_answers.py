"""Bounds and marks of answers, for any text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advisor.mcp.answers import CLOSE, DATA, OPEN, Answer, paged, write

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=3000) | st.lists(
    st.sampled_from([OPEN, CLOSE, "a" * 700, "é" * 90, "\n", "<", "TRACE>>>", "<<<", "\x1b[2J", "😀" * 30])
).map("".join)


@given(TEXT, st.text("note ", max_size=120), st.integers(1, 20), st.integers(900, 4000))
def test_no_answer_is_longer_than_allowed_or_ends_its_data_early(text: str, note: str, page: int, most: int) -> None:
    written = write(Answer(text, note), page, most)
    assert len(written.encode()) <= most
    if written.startswith(DATA):
        assert written.count(OPEN) == written.count(CLOSE) == 2
        body = written.partition(f"\n{OPEN}\n")[2].rpartition(f"\n{CLOSE}\n")[0]
        assert "\x1b" not in body


@given(st.lists(st.text("abc é", min_size=0, max_size=90), min_size=1, max_size=90), st.integers(900, 3000))
def test_pages_together_are_the_answer(lines: list[str], most: int) -> None:
    text = "\n".join(lines).rstrip("\n")
    first = write(Answer(text), 1, most)
    count = int(first.rpartition("page 1 of ")[2].split(";")[0].split(".")[0]) if "page 1 of " in first else 1
    pages = [
        write(Answer(text), page, most).partition(f"\n{OPEN}\n")[2].rpartition(f"\n{CLOSE}\n")[0]
        for page in range(1, count + 1)
    ]
    assert "\n".join(pages) == text


def test_pages_of_the_advisors_own_texts_name_the_next() -> None:
    text = "\n".join(f"line {number}" for number in range(1000))
    first = paged(text, 1, 4000, "advisor://frames?page=")
    assert len(first.encode()) <= 4000
    assert first.endswith("page 1 of 3; go on: advisor://frames?page=2\n")
    assert paged(text, 3, 4000, "x").endswith("line 999\n\npage 3 of 3\n")
    assert paged("short", 1, 4000, "x") == "short\n"
