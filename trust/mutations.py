"""Make small faults in a module's source that `mutants.py` plants and the tests must detect.

Faults are in code only. They are not in docstrings, annotations, decorators, texts, messages of
errors, or code that only a type checker reads.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
FUNCTIONS = {
    one: other
    for pair in (("ceil", "floor"), ("min", "max"), ("any", "all"), ("minimum", "maximum"))
    for one, other in (pair, pair[::-1])
}
NOT_CODE = {"annotation", "returns", "decorator_list", "exc", "cause", "msg", "bases", "keywords"}
TEXTS = {"description"}

Key = tuple[str, str, str]  # function, line and change identify a mutant


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is, what becomes what, and the code of the whole faulty module."""

    function: str  # its qualified name; "" for what runs on import
    line: str
    change: str
    lines: range  # of the statement
    on_import: bool
    code: CodeType

    @property
    def key(self) -> Key:
        return self.function, self.line, self.change


def argument(key: Key) -> str:
    """Return a line of the notes without its reason."""
    function, line, change = key
    place = f"`{function}`, " if function else ""
    return f"- {place}`{line}`: `{change}`: "


def mutants(source: str, filename: str) -> Iterator[Mutant]:
    """Yield all mutants of a module; each has one change."""
    tree = ast.parse(source)
    for place, new, key in _changes(tree, source):
        place.put(new)
        code = compile(ast.fix_missing_locations(tree), filename, "exec")
        place.put(place.node)
        yield Mutant(*key, place.lines, place.on_import, code)


def keys(source: str) -> set[Key]:
    """Return the keys that identify the mutants of a module."""
    return {key for _, _, key in _changes(ast.parse(source), source)}


def _changes(tree: ast.Module, source: str) -> Iterator[tuple[_Place, ast.AST, Key]]:
    text = source.splitlines()
    seen: Counter[Key] = Counter()
    for place in list(_places(tree)):
        for new, after in _replacements(place.node):
            before = ast.unparse(place.node)
            line = text[place.node.lineno - 1].strip()
            change = f"{_short(before)} -> {after}"
            seen[place.function, line, change] += 1
            if (times := seen[place.function, line, change]) > 1:
                change = f"{change} ({times})"
            yield place, new, (place.function, line, change)


@dataclass(frozen=True)
class _Place:
    """A node, and where it hangs in the tree."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.stmt | ast.expr
    function: str
    lines: range
    on_import: bool

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def _places(
    parent: ast.AST, function: str = "", lines: range = range(0), on_import: bool = True
) -> Iterator[_Place]:
    for field, value in ast.iter_fields(parent):
        is_class = isinstance(parent, ast.ClassDef)
        if field in NOT_CODE and (is_class or field != "keywords"):
            continue
        inside = function
        now = on_import
        if isinstance(parent, ast.FunctionDef | ast.ClassDef):
            inside = f"{function}.{parent.name}" if function else parent.name
            now = on_import and (is_class or field != "body")
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST) or _is_text(node):
                continue
            if isinstance(node, ast.stmt):
                first = node.body[0].lineno if hasattr(node, "body") else None
                lines = range(node.lineno, first or (node.end_lineno or node.lineno) + 1)
            if isinstance(node, ast.stmt | ast.expr):
                at = index if isinstance(value, list) else None
                yield _Place(parent, field, at, node, inside, lines, now)
            yield from _places(node, inside, lines, now)


def _is_text(node: ast.AST) -> bool:
    """Return True for docstrings, messages and parts that only type checkers read."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg=arg):
            return arg in TEXTS
    return False


def _replacements(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the possible replacements of a node, each with its description."""
    if isinstance(node, ast.stmt):
        yield from _statements(node)
        return
    for new in _expressions(node):
        yield new, _short(ast.unparse(new))


def _statements(node: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    match node:
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.copy_location(ast.Return(ast.Constant(None)), node), "return None"
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Assert() | ast.Break():
            yield ast.copy_location(ast.Pass(), node), "pass"
        case ast.Continue() | ast.Delete():
            yield ast.copy_location(ast.Pass(), node), "pass"
        case ast.Assign(targets=[target], value=value) if not _defines(target, value):
            yield ast.copy_location(ast.Pass(), node), "pass"
        case ast.If(test=test) | ast.While(test=test) if _is_plain(test):
            new = copy.copy(node)
            new.test = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
            yield new, f"not {_short(ast.unparse(test))}"


def _defines(target: ast.expr, value: ast.expr) -> bool:
    """Return True if the assignment creates its names: without them nothing would run."""
    used = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    made = [node for node in ast.walk(target) if isinstance(node, ast.Name)]
    stored = {node.id for node in made if isinstance(node.ctx, ast.Store)}
    return bool(stored) and not stored & used


def _is_plain(test: ast.expr) -> bool:
    """Return True if the condition has no operator that has mutants of its own."""
    return not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    new: Any
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    new = copy.copy(node)
                    new.ops = [*ops[:index], other(), *ops[index + 1 :]]
                    yield new
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            types = isinstance(op, ast.BitOr) and isinstance(left, ast.Name | ast.BinOp)
            texts = any(
                isinstance(side, ast.JoinedStr)
                or (isinstance(side, ast.Constant) and isinstance(side.value, str))
                for side in (left, right)
            )
            if not types and not texts:
                new = copy.copy(node)
                new.op = OPERATORS[type(op)]()
                yield new
        case ast.BoolOp(op=op):
            new = copy.copy(node)
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(test=test) if _is_plain(test):
            new = copy.copy(node)
            new.test = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
            yield new
        case ast.Constant(value=bool(value)):
            yield ast.copy_location(ast.Constant(not value), node)
        case ast.Constant(value=int(value)):
            yield ast.copy_location(ast.Constant(value + 1), node)
        case ast.Constant(value=float(value)):
            yield ast.copy_location(ast.Constant(2 * value or 1.0), node)
        case ast.Call(func=ast.Name(id=name) as func) if name in FUNCTIONS:
            new = copy.copy(node)
            new.func = ast.copy_location(ast.Name(FUNCTIONS[name], ast.Load()), func)
            yield new
        case ast.Call(func=ast.Attribute(attr=name) as func) if name in FUNCTIONS:
            new = copy.copy(node)
            new.func = copy.copy(func)
            new.func.attr = FUNCTIONS[name]
            yield new


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:67]}..."
