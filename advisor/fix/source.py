"""A file of the user's, parsed: calls by what their name stands for, and replacements of pieces of its text.

LibCST says where things are and what names mean; what is written is the text of the file, with some pieces of it replaced.
So all that no edit speaks of stays as it was, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

import libcst as cst
from libcst import matchers
from libcst.metadata import (
    CodeRange,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameProvider,
    QualifiedNameSource,
    WhitespaceInclusivePositionProvider,
)

INDENT = "    "


class NotEditable(Exception):
    """The source has another form than an edit can change for certain; the message says which."""


@dataclass(frozen=True)
class Piece:
    """A piece of text, from *start* up to *end* (offsets), and what to write instead."""

    start: int
    end: int
    text: str


class Source:
    """One parsed file. Raises ``NotEditable`` where it is no Python that can be parsed."""

    def __init__(self, path: PurePosixPath, text: str) -> None:
        self.path = path
        self.text = text
        try:
            self._wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except (cst.ParserSyntaxError, UnicodeError, RecursionError) as error:
            raise NotEditable(f"{path} cannot be parsed: {type(error).__name__}") from None
        self.module = self._wrapper.module
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    # ---- places

    @cached_property
    def _positions(self) -> dict[cst.CSTNode, CodeRange]:
        return dict(self._wrapper.resolve(PositionProvider))

    @cached_property
    def _extents(self) -> dict[cst.CSTNode, CodeRange]:
        return dict(self._wrapper.resolve(WhitespaceInclusivePositionProvider))

    def _range(self, node: cst.CSTNode) -> CodeRange:
        """Return the range of *node*, the parentheses around it included."""
        return (self._extents if getattr(node, "lpar", ()) else self._positions)[node]

    @cached_property
    def _parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return dict(self._wrapper.resolve(ParentNodeProvider))

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a position; lines count from 1, columns from 0."""
        return self._starts[line - 1] + column

    def start(self, node: cst.CSTNode) -> int:
        """Return the offset at which *node* begins."""
        place = self._range(node).start
        return self.offset(place.line, place.column)

    def end(self, node: cst.CSTNode) -> int:
        """Return the offset behind *node*."""
        place = self._range(node).end
        return self.offset(place.line, place.column)

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and the last line of *node*."""
        place = self._range(node)
        return place.start.line, place.end.line

    def line(self, number: int) -> str:
        """Return a line, with its end."""
        return self.text[self._starts[number - 1] : self._starts[number]]

    def line_start(self, number: int) -> int:
        """Return the offset at which a line begins; that of the line behind the last is the text's length."""
        return self._starts[min(number, len(self._starts)) - 1]

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of *node*."""
        return self.text[self.start(node) : self.end(node)]

    @property
    def newline(self) -> str:
        """The line end of the file."""
        return "\r\n" if "\r\n" in self.text else "\n"

    # ---- structure

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node around *node*."""
        return self._parents.get(node)

    def around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around *node*, the nearest first."""
        at = self.parent(node)
        while at is not None:
            yield at
            at = self.parent(at)

    def in_loop(self, node: cst.CSTNode) -> bool:
        """Tell whether *node* is run again and again by a loop around it, in the same function."""
        inner: cst.CSTNode = node
        for outer in self.around(node):
            if isinstance(outer, cst.FunctionDef | cst.Lambda | cst.ClassDef):
                return False
            if isinstance(outer, cst.For | cst.While) and inner is outer.body:
                return True
            inner = outer
        return False

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """Return the line of simple statements that holds *node*; None where it stands in the head of a block."""
        for outer in (node, *self.around(node)):
            if isinstance(outer, cst.SimpleStatementLine):
                return outer
            if isinstance(outer, cst.BaseCompoundStatement):
                return None
        return None

    # ---- names

    @cached_property
    def _names(self) -> dict[cst.CSTNode, frozenset[str]]:
        found: dict[cst.CSTNode, frozenset[str]] = {}
        for node, names in self._wrapper.resolve(QualifiedNameProvider).items():
            known = names() if callable(names) else names
            found[node] = frozenset(name.name for name in known or () if name.source is not QualifiedNameSource.LOCAL)
        return found

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Names of the module that stand for another: ``Loader = torch.utils.data.DataLoader``, given once."""
        given: dict[str, list[cst.BaseExpression | None]] = {}
        for name in matchers.findall(self.module, matchers.Name()):
            holder = self.parent(name)
            if isinstance(name, cst.Name) and isinstance(holder, cst.AssignTarget):
                assign = self.parent(holder)
                top = isinstance(assign, cst.Assign) and self.at_top(assign)
                given.setdefault(name.value, []).append(
                    assign.value if top and isinstance(assign, cst.Assign) else None
                )
        out = {}
        for alias, values in given.items():
            value = values[0]
            if len(values) == 1 and isinstance(value, cst.Attribute | cst.Name):
                names = self._names.get(value) or frozenset()
                if len(names) == 1:
                    out[alias] = next(iter(names))
        return out

    def at_top(self, node: cst.CSTNode) -> bool:
        """Tell whether *node* is a statement of the module itself, outside of every block."""
        line = self.parent(node)
        return isinstance(line, cst.SimpleStatementLine) and self.parent(line) is self.module

    def name(self, node: cst.CSTNode) -> str:
        """Return what an expression's name stands for, such as ``torch.utils.data.DataLoader``; empty where it is not certain."""
        names = self._names.get(node) or frozenset()
        if len(names) == 1:
            return next(iter(names))
        if not names and isinstance(node, cst.Name):
            return self._aliases.get(node.value, "")
        return ""

    @cached_property
    def _calls(self) -> list[cst.Call]:
        return [node for node in matchers.findall(self.module, matchers.Call()) if isinstance(node, cst.Call)]

    def calls(self, *names: str, line: int | None = None) -> list[cst.Call]:
        """Return the calls of something with one of *names*; with *line*, those alone whose text covers it."""
        out = []
        for call in self._calls:
            if self.name(call.func) not in names:
                continue
            first, last = self.lines(call)
            if line is None or first <= line <= last:
                out.append(call)
        return sorted(out, key=self.start)

    def method_calls(self, name: str) -> list[cst.Call]:
        """Return the calls of a method (or a function of a module) by its last name alone."""
        found = [call for call in self._calls if isinstance(call.func, cst.Attribute) and call.func.attr.value == name]
        return sorted(found, key=self.start)

    def single_call(self, *names: str, line: int) -> cst.Call:
        """Return the one call of something with one of *names* at a line. Raises ``NotEditable`` where there is another count."""
        found = self.calls(*names, line=line)
        if len(found) != 1:
            what = names[0].rpartition(".")[2]
            many = "no call" if not found else f"{len(found)} calls"
            raise NotEditable(f"{many} of {what} by its name at {self.path}:{line}")
        return found[0]

    def assigned(self, name: str) -> list[cst.BaseExpression]:
        """Return the values that are assigned to a plain name, anywhere in the file."""
        return [
            assign.value
            for assign in matchers.findall(self.module, matchers.Assign())
            if isinstance(assign, cst.Assign)
            for target in assign.targets
            if isinstance(target.target, cst.Name) and target.target.value == name
        ]

    def returned(self, name: str) -> list[cst.BaseExpression]:
        """Return the values that a plain function of the file's returns."""
        return [
            found.value
            for statement in self.module.body
            if isinstance(statement, cst.FunctionDef) and statement.name.value == name
            for found in matchers.findall(statement, matchers.Return())
            if isinstance(found, cst.Return) and found.value is not None
        ]

    @cached_property
    def _imports(self) -> list[cst.SimpleStatementLine]:
        """Import statements of the module's head, in order."""
        return [
            line
            for line in self.module.body
            if isinstance(line, cst.SimpleStatementLine)
            and any(isinstance(part, cst.Import | cst.ImportFrom) for part in line.body)
        ]

    def imported_as(self, module: str) -> str | None:
        """Return the name by which the file's head imports a module; None where it does not."""
        for line in self._imports:
            for part in line.body:
                if not isinstance(part, cst.Import):
                    continue
                for alias in part.names:
                    if alias.evaluated_name == module:
                        return alias.evaluated_alias or module
        return None

    # ---- writing

    def after_imports(self, code: str) -> Piece:
        """Return the piece that puts a line of code behind the imports of the file's head, an empty line between."""
        if not self._imports:
            raise NotEditable(f"{self.path} imports nothing at its head")
        last = self._imports[-1]
        # Only what follows the imports without a break in between counts as the head.
        for line, following in zip(self._imports, self._imports[1:], strict=False):
            body = list(self.module.body)
            if body.index(following) != body.index(line) + 1:
                last = line
                break
        end = self.line_start(self.lines(last)[1] + 1)
        lead = "" if self.text[:end].endswith("\n") else self.newline
        return Piece(end, end, f"{lead}{self.newline}{code}{self.newline}")

    def without(self, node: cst.BaseSmallStatement) -> Piece:
        """Return the piece that removes a statement: its line where it stands alone, ``pass`` instead where a block needs one."""
        line = self.parent(node)
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            raise NotEditable(f"the statement at {self.path}:{self.lines(node)[0]} shares its line with others")
        block = self.parent(line)
        first, last = self.lines(line)
        if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
            return Piece(self.start(node), self.end(node), "pass")
        return Piece(self.line_start(first), self.line_start(last + 1), "")

    def replaced(self, pieces: Sequence[Piece]) -> str:
        """Return the text with *pieces* replaced. Raises ``NotEditable`` where they overlap, or the result is no Python."""
        out, at = [], 0
        for piece in sorted(pieces, key=lambda piece: (piece.start, piece.end)):
            if piece.start < at:
                raise NotEditable("two changes of one edit overlap")
            out += [self.text[at : piece.start], piece.text]
            at = piece.end
        text = "".join([*out, self.text[at:]])
        try:
            compile(text, str(self.path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise NotEditable(f"the edited file would not compile: {error}") from None
        return text
