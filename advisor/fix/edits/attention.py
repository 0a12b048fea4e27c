"""Attention that is written out by hand as in the textbooks: scores, mask, softmax and product in lines that follow each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import class_around, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_INFINITE = {f"{sign}{name}" for sign in "-" for name in ("torch.inf", "math.inf", "float('inf')", 'float("inf")')} | {
    "float('-inf')", 'float("-inf")'
}  # fmt: skip
_SIZE = regex(r"math\.sqrt|\w+\.(size\(-?\d\)|shape\[-?\d\])|(self\.)?(head_dim|d_k|d_head|dim_head|head_size|hs)\b")
_LOWER = regex(
    r"^torch\.ones\([^()]*(\([^()]*\))?[^()]*\)\.tril\(\)|^torch\.tril\(torch\.ones\([^()]*(\([^()]*\))?[^()]*\)\)"
)
_VIEWS = regex(r"(\.view\([^()]*\)|\.reshape\([^()]*\)|\[None,None\]|\.bool\(\)|\.to\(torch\.bool\))$")


@dataclass
class Chain:
    """The lines of attention, as far as they are read: operands, scale and mask as text, and the names that hold the weights."""

    q: str
    k: str
    scale: str
    names: list[str] = field(default_factory=list)
    mask: str = ""

    def arguments(self, v: str) -> str:
        """Return the arguments of the fused function."""
        mask = {"": "", "causal": ", is_causal=True"}.get(self.mask, f", attn_mask={self.mask}")
        return f"{self.q}, {self.k}, {v}{mask}" + (f", scale={self.scale}" if self.scale else "")


def _make(request: Request) -> Iterator[Change]:
    because = "no lines of the known form of attention follow each other: scores, mask, softmax, product"
    for source in request.sources():
        pieces: list[Piece] = []
        for block in matchers.findall(source.module, matchers.IndentedBlock()):
            body = list(block.body) if isinstance(block, cst.IndentedBlock) else []
            for at in range(len(body)):
                try:
                    pieces += _from(source, body, at)
                except NotEditable as reason:
                    because = str(reason)
        if pieces:
            yield changed(source, pieces, "F.scaled_dot_product_attention for the attention by hand")
            return
    raise NotEditable(because)


def _from(source: Source, body: Sequence[cst.BaseStatement], at: int) -> list[Piece]:
    """Return the pieces that replace attention whose first line is *at* in a block; none where no scores are made there."""
    name, value = _assignment(body[at])
    chain = _scores(source, value)
    if chain is None or name is None:
        return []
    chain.names.append(name)
    for end in range(at + 1, len(body)):
        name, value = _assignment(body[end])
        if name is not None and value is not None and _is_mask(source, chain, value):
            chain.names.append(name)
            continue
        weights = _softmax_of(source, value)
        if weights is not None and name is not None and written(weights) == chain.names[-1]:
            chain.names.append(name)
            return _written_anew(source, chain, body, at, end + 1)
        break
    raise NotEditable(
        f"what follows the scores at {place(source, body[at])} has another form than mask, softmax, product"
    )


def _assignment(statement: cst.BaseStatement) -> tuple[str | None, cst.BaseExpression | None]:
    """Return the plain name that a line assigns, and the value."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None, None
    assign = statement.body[0]
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None, None
    target = assign.targets[0].target
    return (target.value if isinstance(target, cst.Name) else None), assign.value


def _product(source: Source, value: cst.CSTNode | None) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the operands of a matrix product."""
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.MatrixMultiply):
        return value.left, value.right
    plain = isinstance(value, cst.Call) and len(value.args) == 2 and all(not arg.star for arg in value.args)
    if plain and isinstance(value, cst.Call) and source.name(value.func) == "torch.matmul":
        return value.args[0].value, value.args[1].value
    return None


def _scores(source: Source, value: cst.BaseExpression | None) -> Chain | None:
    """Read ``q @ k.transpose(-2, -1)``, divided by or times a number; None where the value is no such product."""
    scale = ""
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide | cst.Multiply):
        factor = source.code(value.right)
        bare = isinstance(value.right, cst.BinaryOperation) and not value.right.lpar
        scale = factor
        if isinstance(value.operator, cst.Divide):
            scale = f"1 / ({factor})" if bare else f"1 / {factor}"
        value = value.left
    operands = _product(source, value)
    keys = operands[1] if operands is not None else None
    if operands is None or not isinstance(keys, cst.Call) or not isinstance(keys.func, cst.Attribute):
        return None
    if keys.func.attr.value != "transpose" or sorted(written(arg.value) for arg in keys.args) != ["-1", "-2"]:
        return None
    q, k = operands[0], keys.func.value
    if not isinstance(q, cst.Name) or not isinstance(k, cst.Name):
        raise NotEditable(f"the queries and keys at {place(source, keys)} are no plain names")
    plain = re.sub(r"\s", "", scale)
    if not scale:
        return Chain(q.value, k.value, "1.0")
    # The function's own scale, as it is mostly written.
    if re.fullmatch(rf"\(?1(\.0)?/\(?math\.sqrt\(({q.value}|{k.value})\.(size\(-1\)|shape\[-1\])\)\)?\)?", plain):
        return Chain(q.value, k.value, "")
    if re.fullmatch(r"[\d.()/*+\-]+", _SIZE.sub("1", plain)) is None:
        raise NotEditable(f"whether {scale} at {place(source, keys)} is a number is not certain")
    return Chain(q.value, k.value, scale)


def _is_mask(source: Source, chain: Chain, value: cst.BaseExpression) -> bool:
    """Read ``scores.masked_fill(mask == 0, -inf)`` into *chain*; the fused form's mask is True where a pair takes part."""
    if (
        not isinstance(value, cst.Call)
        or not isinstance(value.func, cst.Attribute)
        or value.func.attr.value != "masked_fill"
    ):
        return False
    given = [written(arg.value) for arg in value.args]
    keywords = any(arg.keyword is not None or arg.star for arg in value.args)
    if chain.mask or keywords or len(given) != 2 or written(value.func.value) != chain.names[-1]:
        return False
    if given[1] not in _INFINITE:
        raise NotEditable(f"the mask at {place(source, value)} fills with another number than -inf")
    condition = value.args[0].value
    if isinstance(condition, cst.UnaryOperation) and isinstance(condition.operator, cst.BitInvert):
        chain.mask = source.code(condition.expression)
    elif given[0].endswith(("==0", "==False")) and isinstance(condition, cst.Comparison):
        chain.mask = f"{source.code(condition.left)} != 0"
    else:
        raise NotEditable(f"which pairs the mask at {place(source, value)} lets through is not certain")
    if _is_causal(source, value, re.sub(r"\s", "", chain.mask)):
        chain.mask = "causal"
    return True


def _is_causal(source: Source, node: cst.CSTNode, mask: str) -> bool:
    """Tell a mask that is a buffer of the class, lower triangular, cut to the length of queries and keys alike."""
    found = re.fullmatch(r"self\.(\w+)\[(?::,:,)?:(\w+),:(\w+)\](!=0)?", mask)
    owner = class_around(source, node)
    if found is None or found[2] != found[3] or owner is None:
        return False
    text = re.sub(r"\s", "", source.code(owner))
    given = re.findall(rf"""register_buffer\(["']{found[1]}["'],(.*?)(?:,persistent=\w+)?\)(?=self\.|def|@|$)""", text)
    if len(given) != 1 or re.search(rf"self\.{found[1]}=[^=]", text):
        return False
    made = _without_views(given[0])
    if made.isidentifier():
        values = [written(value) for value in source.assigned(made)]
        made = _without_views(values[0]) if len(values) == 1 else ""
    return _LOWER.fullmatch(made) is not None


def _without_views(text: str) -> str:
    while (shorter := _VIEWS.sub("", text)) != text:
        text = shorter
    return text


def _softmax_of(source: Source, value: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """Return what a softmax over the last dimension is taken of: as a function, or a method."""
    if not isinstance(value, cst.Call):
        return None
    args = list(value.args)
    function = source.name(value.func) in ("torch.nn.functional.softmax", "torch.softmax")
    method = isinstance(value.func, cst.Attribute) and value.func.attr.value == "softmax" and not function
    rest = args[1:] if function else args
    if (
        len(rest) != 1
        or written(rest[0].value) != "-1"
        or (rest[0].keyword is not None and rest[0].keyword.value != "dim")
    ):
        return None
    if function and args[0].keyword is None:
        return args[0].value
    return value.func.value if method and isinstance(value.func, cst.Attribute) else None


def _written_anew(
    source: Source, chain: Chain, body: Sequence[cst.BaseStatement], first: int, behind: int
) -> list[Piece]:
    """Return the pieces that leave the line of the product alone, with the fused function in it.

    *behind* is the line behind the softmax: lines that make the values may stand there, and stay.
    """
    weights, last = chain.names[-1], behind
    while last < len(body) and _makes_another(chain, body[last]):
        last += 1
    if last >= len(body) or not isinstance(body[last], cst.SimpleStatementLine):
        raise NotEditable(f"no product follows the softmax at {place(source, body[behind - 1])}")
    line = body[last]
    for node in matchers.findall(line, matchers.OneOf(matchers.BinaryOperation(), matchers.Call())):
        operands = _product(source, node)
        if operands is None or written(operands[0]) != weights or not isinstance(operands[1], cst.Name):
            continue
        call = f"{_function(source)}({chain.arguments(operands[1].value)})"
        begin, until = (source.line_start(source.lines(each)[0]) for each in (body[first], body[behind]))
        commented = "#" in source.text[begin : source.end(body[behind])] or "#" in source.code(line)
        if commented or chain.names[0] in (chain.q, chain.k):
            raise NotEditable(f"comments stand among the lines of attention at {place(source, body[first])}")
        _check_names(source, chain, [*body[first:behind], line])
        return [Piece(begin, until, ""), Piece(source.start(node), source.end(node), call)]
    raise NotEditable(f"what follows the softmax at {place(source, body[last - 1])} is no product with plain values")


def _makes_another(chain: Chain, statement: cst.BaseStatement) -> bool:
    """Tell a line that gives another name a value without the scores, and changes none that they are made of."""
    name, value = _assignment(statement)
    if name is None or value is None or matchers.findall(value, matchers.NamedExpr()):
        return False
    read = {written(each) for each in matchers.findall(value, matchers.Name())}
    taken = {chain.q, chain.k, *re.findall(r"[A-Za-z_]\w*", f"{chain.mask} {chain.scale}")}
    return not read & set(chain.names) and name not in taken | set(chain.names)


def _check_names(source: Source, chain: Chain, lines: Sequence[cst.BaseStatement]) -> None:
    """Raise ``NotEditable`` where something else reads the scores or the weights: dropout, a return, a hook."""
    final, _ = _assignment(lines[-1])
    for name in set(chain.names) - {final}:
        everywhere: cst.CSTNode = source.module
        for outer in source.around(lines[0]):
            if isinstance(outer, cst.FunctionDef):
                everywhere = outer
                break
        inside = sum(len(matchers.findall(line, matchers.Name(name))) for line in lines)
        if len(matchers.findall(everywhere, matchers.Name(name))) != inside:
            raise NotEditable(f"{name} of {place(source, lines[0])} is read elsewhere, too")


def _function(source: Source) -> str:
    """Return the fused function by a name that the file has."""
    name = source.imported_as("torch.nn.functional")
    if name is not None:
        return f"{name}.scaled_dot_product_attention"
    for node in matchers.findall(source.module, matchers.Attribute()):
        if isinstance(node, cst.Attribute) and source.name(node).startswith("torch.nn.functional."):
            return f"{source.code(node.value)}.scaled_dot_product_attention"
    name = source.imported_as("torch")
    if name is None:
        raise NotEditable(f"{source.path} has no name for torch.nn.functional")
    return f"{name}.nn.functional.scaled_dot_product_attention"


EDITS = (
    Edit(
        "fused-attention",
        "Compute attention in one fused operator",
        ("cpu/unfused-attention", "kernels/unfused-attention"),
        _make,
    ),
)
