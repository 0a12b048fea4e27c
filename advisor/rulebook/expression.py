"""One expression of a rule: its syntax tree checked node by node, and printed again as SQL from what was checked.

The tree is DuckDB's (``json_serialize_sql``), in the form of its first or its second major version. A node, function,
operator or type that is not listed here is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from advisor.errors import AdvisorError, nearest
from advisor.regex import regex

Limit = float | int | str
Node = Mapping[str, Any]
Known = TypeVar("Known")

MAX_DEPTH = 64
MAX_PATTERN = 256
MAX_REPEATS = 200

_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_TYPES = {
    **dict.fromkeys(("BOOLEAN", "BOOL"), "BOOLEAN"),
    **dict.fromkeys(("INTEGER", "INT", "INT4"), "INTEGER"),
    **dict.fromkeys(("BIGINT", "INT8", "LONG"), "BIGINT"),
    **dict.fromkeys(("DOUBLE", "FLOAT8", "FLOAT", "REAL", "FLOAT4"), "DOUBLE"),
    **dict.fromkeys(("VARCHAR", "TEXT", "STRING"), "VARCHAR"),
}
# Function to the fewest and the most arguments it takes. None of them makes more text than it is given.
_SCALARS = {
    **dict.fromkeys(("abs", "floor", "ceil", "ceiling", "trunc", "sqrt", "ln", "log2", "log10", "exp", "sign"), (1, 1)),
    **dict.fromkeys(("lower", "upper", "length", "trim", "ltrim", "rtrim", "isnan", "isinf", "isfinite"), (1, 1)),
    **dict.fromkeys(("pow", "nullif", "contains", "starts_with", "ends_with", "prefix", "suffix"), (2, 2)),
    **dict.fromkeys(("left", "right"), (2, 2)),
    **dict.fromkeys(("greatest", "least"), (2, 16)),
    "round": (1, 2),
}
_AGGREGATES = {
    "count_star": (0, 0),
    **dict.fromkeys(
        ("count", "sum", "min", "max", "avg", "median", "count_if", "bool_or", "bool_and", "any_value"), (1, 1)
    ),
}
_SYNONYMS = {"power": "pow", "^": "pow", "**": "pow", "mod": "%", "mean": "avg", "countif": "count_if"}
_ARITHMETIC = ("+", "-", "*", "/", "//", "%")
_LIKES = {"~~": (False, False), "!~~": (False, True), "~~*": (True, False), "!~~*": (True, True)}
_FUNCTIONS = sorted([*_SCALARS, *_AGGREGATES, "coalesce", "regexp_matches", "regexp_extract", "if", "mod"])

# Stand-ins in the printed SQL for what is known only when the rule runs. No literal can hold these characters.
_ROWS, _LATE = "\x01", "\x02"
_SPECIAL = regex(r"[\\.+*?()|\[\]{}^$]")
_REPEAT = regex(r"\{(\d+)(?:,(\d*))?\}")


class ConditionError(AdvisorError):
    """A condition that cannot be: ``problem`` says what is wrong, the message also where."""

    def __init__(self, problem: str, where: str = "") -> None:
        self.problem = problem
        super().__init__(f"{where}: {problem}" if where else problem)


class Request(Struct, frozen=True):
    """A text to compile: *limits* are bound as literals, *late* names when the condition runs. It is a condition, or a *number*."""

    text: str
    frame: str
    columns: Mapping[str, str]
    limits: Mapping[str, Limit] = field(default_factory=dict)
    aggregates: bool = False
    item: bool = False
    number: bool = False
    late: tuple[str, ...] = ()
    where: str = ""


class Condition(Struct, frozen=True):
    """A checked expression: the text as written, the columns and limits it uses, and the SQL printed from its tree."""

    text: str
    columns: tuple[str, ...]
    limits: frozenset[str]
    aggregate: bool
    alias: str
    template: str
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """SQL and columns of each condition that AND joins, where it does."""

    def bind(self, rows: str = "", **late: int | float) -> str:
        """The SQL to run: aggregates see only the rows where the condition *rows* holds; *late* names get values."""
        sql = self.template
        for name, value in late.items():
            sql = sql.replace(f"{_LATE}{name}{_LATE}", _literal(value))
        if rows:
            sql = sql.replace(f"{_ROWS}(", f" FILTER (WHERE ({rows}) AND ").replace(_ROWS, f" FILTER (WHERE {rows})")
        return sql.replace(f"{_ROWS}(", " FILTER (WHERE ").replace(_ROWS, "")

    @property
    def sql(self) -> str:
        """The SQL with every late name standing at 1."""
        return re.sub(f"{_LATE}[^{_LATE}]*{_LATE}", "1", self.bind())


def _literal(value: Limit | None) -> str:
    """A limit as SQL. Fractions are doubles, so that no product overflows a decimal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        if any(ord(character) < 32 for character in value):
            raise ConditionError("text may not hold control characters")
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if not math.isfinite(value):
        raise ConditionError("numbers must be finite")
    return f"CAST({value!r} AS DOUBLE)"


class Printer:
    """Checks one tree and prints it as SQL."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.columns: dict[str, None] = {}
        self.limits: set[str] = set()
        self.aggregate = False
        self.inside_aggregate = False
        self.depth = 0

    def condition(self, node: Node) -> Condition:
        parts: list[tuple[str, tuple[str, ...]]] = []
        if node.get("type") == "CONJUNCTION_AND":
            known = self.columns
            for child in node["children"]:
                self.columns = {}
                sql = self.expression(child)
                parts.append((sql, tuple(self.columns)))
                known |= self.columns
            self.columns = known
            template = "(" + " AND ".join(sql for sql, _ in parts) + ")"
        else:
            template = self.expression(node)
        alias = str(node.get("alias") or "")
        if self.request.item and not alias:
            names = node.get("column_names")
            alias = names[0] if names else " ".join(self.request.text.split())
        return Condition(
            self.request.text,
            tuple(self.columns),
            frozenset(self.limits),
            self.aggregate,
            alias,
            template,
            tuple(parts),
        )

    def expression(self, node: Node) -> str:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ConditionError("nested too deeply")
        kind = str(node.get("class"))
        printer = _PRINTERS.get(kind)
        if printer is None:
            raise ConditionError(f"{_REFUSED.get(kind, kind.lower().replace('_', ' '))} is not allowed in a condition")
        sql = printer(self, node)
        self.depth -= 1
        return sql

    def known(self, node: Node, names: Mapping[str, Known]) -> Known:
        """Look the type of this node up in *names*; a type that is not there may not be used."""
        kind = str(node.get("type"))
        if kind not in names:
            name = kind.lower().removeprefix("operator_").replace("_", " ")
            raise ConditionError(f"the operator '{name}' is not allowed in a condition")
        return names[kind]

    def list(self, nodes: Iterable[Node]) -> list[str]:
        return [self.expression(node) for node in nodes]

    def column(self, node: Node) -> str:
        names = [str(name) for name in node["column_names"]]
        if len(names) != 1 or names[0] not in self.request.columns:
            name = ".".join(names)
            raise ConditionError(
                f"no column '{name}' in frame '{self.request.frame}'{nearest(name, self.request.columns)}"
            )
        self.columns[names[0]] = None
        return f'"{names[0]}"'

    def constant(self, node: Node) -> str:
        return _literal(_constant(node))

    def parameter(self, node: Node) -> str:
        name = str(node.get("identifier"))
        if name in self.request.late:
            return f"{_LATE}{name}{_LATE}"
        if name not in self.request.limits:
            known = [*self.request.limits, *self.request.late]
            raise ConditionError(f"no limit '${name}'{nearest(name, known)}")
        self.limits.add(name)
        return _literal(self.request.limits[name])

    def comparison(self, node: Node) -> str:
        sign = self.known(node, _COMPARISONS)
        left, right = self.list((node["left"], node["right"]))
        return f"({left} {sign} {right})"

    def conjunction(self, node: Node) -> str:
        word = self.known(node, {"CONJUNCTION_AND": " AND ", "CONJUNCTION_OR": " OR "})
        return "(" + word.join(self.list(node["children"])) + ")"

    def operator(self, node: Node) -> str:
        return self.known(node, _OPERATORS)(self.list(node["children"]))

    def between(self, node: Node) -> str:
        value, low, high = self.list((node["input"], node["lower"], node["upper"]))
        return f"({value} BETWEEN {low} AND {high})"

    def case(self, node: Node) -> str:
        whens = [
            f"WHEN {self.expression(check['when_expr'])} THEN {self.expression(check['then_expr'])}"
            for check in node["case_checks"]
        ]
        return f"(CASE {' '.join(whens)} ELSE {self.expression(node['else_expr'])} END)"

    def cast(self, node: Node) -> str:
        kind = node.get("type_expr") or node.get("cast_type") or {}
        name = str(kind.get("type_name") or kind.get("id")).upper()
        plain = not kind.get("children") and not kind.get("type_info")
        if name not in _TYPES or not plain:
            allowed = ", ".join(sorted(set(_TYPES.values())))
            raise ConditionError(f"a cast to {name} is not allowed, only to {allowed}")
        return f"{'TRY_CAST' if node.get('try_cast') else 'CAST'}({self.expression(node['child'])} AS {_TYPES[name]})"

    def function(self, node: Node) -> str:
        name = str(node.get("function_name")).lower()
        name = _SYNONYMS.get(name, name)
        arguments = node.get("children") or [argument["expression"] for argument in node.get("arguments") or []]
        if name in _AGGREGATES:
            return self.aggregation(name, arguments, node)
        if not _is_plain(node):
            raise ConditionError(f"{name}() takes plain arguments only")
        if name in _LIKES:
            return self.like(arguments, *_LIKES[name])
        if name in ("regexp_matches", "regexp_extract"):
            return self.regexp(name, arguments)
        if name in _ARITHMETIC and len(arguments) in (1, 2) and (len(arguments) == 2 or name in ("+", "-")):
            return self.arithmetic(name, arguments)
        if name == "if" and len(arguments) == 3:
            test, yes, no = self.list(arguments)
            return f"(CASE WHEN {test} THEN {yes} ELSE {no} END)"
        if name not in _SCALARS or node.get("schema") not in ("", "main", None):
            raise ConditionError(f"the function {name}() is not allowed in a condition{nearest(name, _FUNCTIONS, 0.7)}")
        self.count_arguments(name, arguments, _SCALARS[name])
        return f"{name}({', '.join(self.list(arguments))})"

    def arithmetic(self, sign: str, arguments: Sequence[Node]) -> str:
        if len(arguments) == 1:
            return f"({sign}{self.expression(arguments[0])})"
        left, right = self.list(arguments)
        if sign in ("/", "//", "%") and not (arguments[1].get("class") == "CONSTANT" and _constant(arguments[1])):
            # By zero gives NULL: some versions of DuckDB raise instead, others give infinity.
            right = f"nullif({right}, 0)"
        if sign == "*":
            left = f"CAST({left} AS DOUBLE)"  # eight times the ns of a damaged clock do not fit into a whole number
        return f"({left} {sign} {right})"

    def aggregation(self, name: str, arguments: Sequence[Node], node: Node) -> str:
        shown = "count" if name == "count_star" else name
        if not self.request.aggregates:
            raise ConditionError(f"the aggregate {shown}() is not allowed here; it belongs in match.having")
        if self.inside_aggregate:
            raise ConditionError("an aggregate may not stand inside another")
        if (node.get("order_bys") or {}).get("orders"):
            raise ConditionError(f"{shown}() takes no ORDER BY")
        self.count_arguments(shown, arguments, _AGGREGATES[name])
        self.aggregate = self.inside_aggregate = True
        inner = "*" if name == "count_star" else ", ".join(self.list(arguments))
        chosen = f"{_ROWS}({self.expression(node['filter'])})" if node.get("filter") else _ROWS
        self.inside_aggregate = False
        return f"{shown}({'DISTINCT ' if node.get('distinct') else ''}{inner}){chosen}"

    def like(self, arguments: Sequence[Node], insensitive: bool, negated: bool) -> str:
        self.count_arguments("LIKE", arguments, (2, 2))
        subject, pattern = self.expression(arguments[0]), self.pattern(arguments[1])
        # DuckDB backtracks at each % where there is a _ or no case: a hostile pattern would not end. RE2 is linear.
        if pattern.rstrip("%").count("%") > 1 and (insensitive or "_" in pattern):
            literal = _SPECIAL.sub(r"\\\g<0>", pattern)
            regexp = literal.replace("%", ".*").replace("_", ".")
            sql = f"regexp_full_match({subject}, {_literal(regexp)}, '{'is' if insensitive else 's'}')"
        else:
            sql = f"({subject} {'ILIKE' if insensitive else 'LIKE'} {_literal(pattern)})"
        return f"(NOT {sql})" if negated else sql

    def regexp(self, name: str, arguments: Sequence[Node]) -> str:
        self.count_arguments(name, arguments, (2, 3))
        subject, pattern = self.expression(arguments[0]), self.pattern(arguments[1])
        repeats = sum(int(high or low) for low, high in _REPEAT.findall(pattern))
        if repeats > MAX_REPEATS:
            raise ConditionError(f"the counted repetitions of a pattern may add up to {MAX_REPEATS} at most")
        if len(arguments) == 2:
            return f"{name}({subject}, {_literal(pattern)})"
        option = _constant(arguments[2]) if arguments[2].get("class") == "CONSTANT" else None
        if name == "regexp_matches" and option not in ("i", "c", "s", "is"):
            raise ConditionError("the third argument of regexp_matches() must be 'i', 'c', 's' or 'is'")
        if name == "regexp_extract" and option not in range(10):
            raise ConditionError("the third argument of regexp_extract() must be the number of a group")
        return f"{name}({subject}, {_literal(pattern)}, {_literal(option)})"

    def pattern(self, node: Node) -> str:
        """The text of a pattern, which must be written out or a limit: patterns from a trace could be hostile."""
        value: Limit | None = None
        if node.get("class") == "CONSTANT":
            value = _constant(node)
        elif node.get("class") == "PARAMETER" and self.parameter(node):
            value = self.request.limits.get(str(node.get("identifier")))
        if not isinstance(value, str):
            raise ConditionError("a pattern must be text, written out")
        if len(value) > MAX_PATTERN:
            raise ConditionError(f"a pattern may be {MAX_PATTERN} characters long at most")
        return value

    def count_arguments(self, name: str, arguments: Sequence[Node], bounds: tuple[int, int]) -> None:
        low, high = bounds
        if not low <= len(arguments) <= high:
            many = str(low) if low == high else f"{low} to {high}"
            raise ConditionError(f"{name}() takes {many} arguments, not {len(arguments)}")


def _is_plain(call: Node) -> bool:
    """Check that the arguments of a call have no names, and that it has no FILTER, DISTINCT or ORDER BY."""
    if any(argument.get("name") for argument in call.get("arguments") or []):
        return False
    extras = ("filter", "distinct", "export_state", "catalog")
    return not any(call.get(extra) for extra in extras) and not (call.get("order_bys") or {}).get("orders")


def _constant(node: Node) -> Limit | bool | None:
    """The value of a constant in either form: DuckDB 2 keeps the text of a literal, 1 a typed value."""
    literal = node.get("literal")
    if literal is not None:
        kind, text = literal.get("kind"), str(literal.get("text"))
        if kind == "NULL_LITERAL":
            return None
        if kind == "STRING":
            return text
        if kind == "BOOLEAN":
            return text.lower() == "true"
        if kind == "INTEGER":
            return int(text)
        if kind == "NUMERIC":
            return float(text)
        raise ConditionError(f"a {str(kind).lower()} literal is not allowed in a condition")
    value = node.get("value") or {}
    kind, held = (value.get("type") or {}).get("id"), value.get("value")
    if kind == "NULL" or value.get("is_null"):
        return None
    if kind == "DECIMAL" and isinstance(held, int):
        return float(held / 10 ** int(value["type"]["type_info"]["scale"]))
    if isinstance(held, str | bool | int | float):
        return held
    raise ConditionError(f"a literal of type {kind} is not allowed in a condition")


_PRINTERS: dict[str, Callable[[Printer, Node], str]] = {
    "COLUMN_REF": Printer.column,
    "CONSTANT": Printer.constant,
    "PARAMETER": Printer.parameter,
    "COMPARISON": Printer.comparison,
    "CONJUNCTION": Printer.conjunction,
    "OPERATOR": Printer.operator,
    "BETWEEN": Printer.between,
    "CASE": Printer.case,
    "CAST": Printer.cast,
    "FUNCTION": Printer.function,
}
_OPERATORS: dict[str, Callable[[Sequence[str]], str]] = {
    "COMPARE_IN": lambda parts: f"({parts[0]} IN ({', '.join(parts[1:])}))",
    "COMPARE_NOT_IN": lambda parts: f"({parts[0]} NOT IN ({', '.join(parts[1:])}))",
    "OPERATOR_NOT": lambda parts: f"(NOT {parts[0]})",
    "OPERATOR_IS_NULL": lambda parts: f"({parts[0]} IS NULL)",
    "OPERATOR_IS_NOT_NULL": lambda parts: f"({parts[0]} IS NOT NULL)",
    "OPERATOR_COALESCE": lambda parts: f"coalesce({', '.join(parts)})",
}
_REFUSED = {
    "SUBQUERY": "a subquery",
    "STAR": "*",
    "WINDOW": "a window function",
    "LAMBDA": "a lambda",
    "COLLATE": "a collation",
    "DEFAULT": "DEFAULT",
    "POSITIONAL_REFERENCE": "a column by position",
}
