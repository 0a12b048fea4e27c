"""Settings that ``advisor record`` wrote into the trace, as a finding shows them: ``num_workers=0 at train.py:42 → 8``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from advisor.engine.evaluation import Evaluator, Question
from advisor.results.analysis import Setting
from advisor.rulebook.rule import Rule, Shown, with_figures

MOST = 8
_TRUE, _NULL = Question("TRUE", ()), Question("NULL", ())

Figure = Callable[[str, str], str]


def settings(evaluator: Evaluator, rule: Rule, figure: Figure) -> list[Setting]:
    """The settings that *rule* speaks of, each once; none on a trace without any. *figure* writes a fact of the trace.

    Raises what goes wrong inside the rule's own expressions.
    """
    questions: list[Question] = []
    for where, advice in rule.compiled.shown:
        questions.append(Question(where.sql, where.columns) if where else _TRUE)
        questions.append(Question(advice.sql, advice.columns) if advice else _NULL)
    setting_of: dict[tuple[Any, ...], Setting] = {}
    rows = evaluator.settings(questions)
    for at, shown in enumerate(rule.settings):
        for row, answers in rows:
            if row["name"] == shown.name and answers[2 * at] is True:
                setting = _setting(shown, row, answers[2 * at + 1], figure)
                key = (setting.of, setting.name, setting.value, setting.file, setting.line)
                if key not in setting_of or not (setting_of[key].advice or setting_of[key].because):
                    setting_of[key] = setting
    return list(setting_of.values())[:MOST]


def _setting(shown: Shown, row: Mapping[str, Any], advice: Any, figure: Figure) -> Setting:
    value, advised = str(row["value"]), _python_text(advice)
    wanted = advised is not None and advised != value
    # What an advised value follows from is not said without it.
    because = shown.because if wanted or not shown.advice else ""
    return Setting(
        of=row["of"],
        name=shown.name,
        value=value,
        advice=advised if wanted else None,
        because=with_figures(because, lambda name, form: _figure(name, form, row, figure)),
        file=row["file"],
        line=row["line"],
    )


def _figure(name: str, form: str, row: Mapping[str, Any], figure: Figure) -> str:
    if name in row:
        return "unknown" if row[name] is None else str(row[name])
    return figure(name, form)


def _python_text(value: Any) -> str | None:
    """An advised value as Python writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value)
    return f"{value:g}" if math.isfinite(value) else None
