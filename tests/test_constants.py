"""Constants of modules: each name has one value, and each number has a comment."""

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import dpcov

PACKAGE = Path(dpcov.__file__).parent
NUMBERS = {"Fraction", "float", "math", "np"}  # names in the value of a number, beside constants


def sources() -> dict[str, str]:
    """Return the text of each module by its path."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in paths
    }


def assignments(source: str) -> Iterator[tuple[ast.Assign | ast.AnnAssign, str, ast.expr]]:
    """Yield statement, name and value of each constant of a module."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        else:
            continue
        assert statement.value is not None
        for target in targets:
            pairs = [(target, statement.value)]
            if isinstance(target, ast.Tuple):
                values = [statement.value] * len(target.elts)
                if isinstance(statement.value, ast.Tuple):
                    values = statement.value.elts
                pairs = list(zip(target.elts, values, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name) and name.id.isupper() and not is_type(value):
                    yield statement, name.id, value


def is_type(value: ast.expr) -> bool:
    """Return True for a type variable, which is no constant."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec")


def repeated(modules: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return the constants with more than one value: modules by value, by name."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, source in modules.items():
        for _, name, value in assignments(source):
            found[name][ast.unparse(value)].append(path)
    return {name: dict(values) for name, values in found.items() if len(values) > 1}


def is_number(value: ast.expr) -> bool:
    """Return True if a value is a number, or several numbers, that the source states."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    stated = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return (
        all(name in NUMBERS or name.isupper() for name in names)
        and not any(isinstance(node, ast.Dict | ast.Set) for node in ast.walk(value))
        and bool(stated)
        and all(type(one) in (int, float) for one in stated)
    )


def uncommented(source: str) -> list[str]:
    """Return the numbers that have no comment, neither on their lines nor on the line before."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {one.start[0]: one.start[1] == 0 for one in tokens if one.type == tokenize.COMMENT}
    return [
        name
        for statement, name, value in assignments(source)
        if is_number(value)
        and not comments.get(statement.lineno - 1)  # a line that is a comment and nothing else
        and comments.keys().isdisjoint(range(statement.lineno, (statement.end_lineno or 0) + 1))
    ]


def test_each_constant_has_one_value() -> None:
    assert repeated(sources()) == {}


def test_a_second_value_is_found_also_in_a_pair_and_with_an_annotation() -> None:
    first = "STEP = 0.001\nLIMIT: int = 5\nR = TypeVar('R')\nstep = 1\n"
    assert repeated({"a.py": first, "b.py": first.replace("0.001", "1e-3")}) == {}
    second = "LEVEL, STEP = 0.95, 0.002\nLIMIT: int = 6\nR = TypeVar('R', int)\nstep = 2\n"
    other = repeated({"a.py": first, "b.py": second})
    assert other["STEP"] == {"0.001": ["a.py"], "0.002": ["b.py"]}
    assert other.keys() == {"STEP", "LIMIT"}


def test_each_number_has_a_comment() -> None:
    found = {path: uncommented(text) for path, text in sources().items()}
    assert [path for path in found if found[path]] == []


def test_a_number_without_a_comment_is_found() -> None:
    assert uncommented("STEP = 0.001\n") == ["STEP"]
    assert uncommented("WIDTH = 1  # why\nSTEP = 0.001\n") == ["STEP"]
    assert uncommented("# why\n\nLOW, HIGH = Fraction(1, 25), np.arange(3)\n") == ["LOW", "HIGH"]
    commented = "STEP = 0.001  # why\n# why\nLIMIT = (\n    2\n)\n"
    assert uncommented(commented + "TEXT = 'a'\nPAIRS = {1: 2}\n") == []
