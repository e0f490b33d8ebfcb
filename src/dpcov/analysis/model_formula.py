"""Formulas of models, such as ``sbp ~ age + C(ward, ref='surgery') + age:smoker``.

The parser of formulaic splits a formula into tokens and builds a tree of operators. dpcov reads
this tree and evaluates nothing. A whitelist refuses every token and every Python expression that is
not a name, `C` with a name and a reference level, an allowed operator, a parenthesis, 0 or 1.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcov.analysis.declared import Option
from dpcov.analysis.features import MAX_LISTED_NAMES, position
from dpcov.core.installing import library
from dpcov.core.printable import printable
from dpcov.errors import ReleaseError
from dpcov.rows.schema import Categorical, Date, Derived, Numeric, Time, level_text

if TYPE_CHECKING:
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

# Largest length of a formula: the names of 8,191 features with eight characters each.
MAX_FORMULA_CHARACTERS = 2**16
# Largest number of terms of a product of two sums. A release has fewer features.
MAX_PRODUCT_TERMS = 8191
# Largest number of characters of a formula that an error message repeats.
MAX_SHOWN_CHARACTERS = 60
OPERATORS = frozenset("~+-:*")
PLAIN_TOKENS = {("value", "0"), ("value", "1"), ("context", "("), ("context", ")")}
_LEVELS = str | int | float  # types of a level in a formula
# Start of a factor such as C(`sex=f`). Python cannot parse the backquotes.
_QUOTED_CALL = re.compile(r"C\(\s*`(?P<name>[^`]+)`")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")  # key of TOML that needs no quotes
FORMULA_OPTION = Option(
    "FORMULA",
    "Target and terms, such as 'sbp ~ age + sex'; instead of --target and --features.",
    completes="formula",
)
ALLOWED_TEXT = (
    "use names of columns, C(name, ref='level') and + - : * ( ), with other names in backquotes"
)
SQUARE_NOTE = "{term} is the square of {name}. In R and statsmodels, {term} means {name}."


@dataclass(frozen=True, slots=True)
class Factor:
    """Factor of a term.

    Attributes
    ----------
    text : str
        Factor as it stands in the formula, without backquotes around a name.

    name : str
        Name of a column or feature.

    coded : bool
        True for a factor ``C(name)``.

    reference : str, optional
        Reference level that the formula states.

    """

    text: str
    name: str
    coded: bool = False
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """Product of factors. Two terms are equal if their factors are, in any order.

    Attributes
    ----------
    factors : tuple of Factor
        Factors in the order of the formula. The intercept has none.

    sorted_factors : tuple of Factor
        Factors in the order of their names.

    """

    factors: tuple[Factor, ...] = field(compare=False)
    sorted_factors: tuple[Factor, ...]

    @classmethod
    def of(cls, *factors: Factor) -> Term:
        return cls(factors, tuple(sorted(factors, key=lambda one: (one.name, one.text))))

    @property
    def text(self) -> str:
        """Name of the term."""
        return ":".join(factor.text for factor in self.factors)


INTERCEPT = Term.of()


@dataclass(frozen=True, slots=True)
class Regression:
    """Target and features of a regression.

    Attributes
    ----------
    target : str
        Name of the feature to predict.

    features : tuple of str, or None
        Names of features or columns. None stands for all columns except the target.

    labels : dict of str to str
        Names of features in the output, if they are not the names of the features.

    notes : tuple of str
        Sentences about reference levels and squares.

    has_intercept : bool
        False if a formula removes the intercept.

    """

    target: str
    features: tuple[str, ...] | None
    labels: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    has_intercept: bool = True

    @classmethod
    def of(cls, release: Release, target: str, features: Sequence[str] | None) -> Regression:
        """Return the target and features of a regression, by names or by a formula.

        Parameters
        ----------
        release : Release
            Release that contains the features.

        target : str
            Name of a feature, or a formula.

        features : sequence of str, or None
            Names of features or columns. None with a formula.

        Returns
        -------
        Regression
            Target and features.

        Raises
        ------
        ReleaseError
            The formula is not valid, or the release lacks a term of the formula.

        """
        if "~" not in target or target in release.columns:
            return cls(target, None if features is None else tuple(features))
        if features is not None:
            raise ReleaseError(
                "A formula names the features itself. Leave out the other list of features."
            )
        name, terms = parsed(target)
        return _resolved(release, name, terms)

    def names(self, features: Sequence[str]) -> tuple[str, ...]:
        """Return the names of features in the output."""
        return tuple(self.labels.get(name, name) for name in features)


def given_target(formula: str | None, target: str | None) -> str:
    """Return the formula or the target of a command line, or raise unless one is given."""
    if (formula is None) == (target is None):
        raise ReleaseError(
            "A regression needs a formula or a target, and not both. Write a formula such as "
            "'y ~ a + b', or use --target."
        )
    return str(formula if target is None else target)


def parsed(formula: str) -> tuple[str, list[Term]]:
    """Split a formula into the name of the target and the terms.

    Parameters
    ----------
    formula : str
        Formula with one ``~``.

    Returns
    -------
    target : str
        Name before the ``~``.

    terms : list of Term
        Terms after the ``~``, products last. A term without factors is the intercept.

    Raises
    ------
    ReleaseError
        The formula is not valid, or the package formulaic is missing.

    """
    if len(formula) > MAX_FORMULA_CHARACTERS:
        raise ReleaseError(
            f"The formula has {len(formula)} characters, but at most {MAX_FORMULA_CHARACTERS} are "
            "allowed. Use a shorter formula, or name the features in a list."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of unusual escapes in a text
            target, tree = _tree(formula)
            terms = _terms(tree)
    except (RecursionError, MemoryError):
        raise ReleaseError("The formula is nested too deeply. Use fewer parentheses.") from None
    return target, sorted(terms, key=lambda term: len(term.factors) > 1)


def _tree(formula: str) -> tuple[str, Any]:
    """Return the target and formulaic's tree of the terms, if the whitelist has all tokens."""
    parser, tokenizer, errors = (
        library("formulaic", "A formula needs the package formulaic", ReleaseError, module)
        for module in (
            "formulaic.parser",
            "formulaic.parser.algos.tokenize",
            "formulaic.errors",
        )
    )
    try:
        tokens = list(tokenizer.tokenize(formula))
        for token in tokens:
            _require_allowed(token, formula)
        tildes = [at for at, one in enumerate(tokens) if "~" in one.token and _kind(one) != "name"]
        starts = tildes == [1] and tokens[1].token.rfind("~") == 0
        if not starts or _kind(tokens[0]) != "name" or len(tokens) == 2:
            raise ReleaseError(
                f"The formula {_shown(formula)} needs one name, a single ~ and then the terms. "
                "Write it as 'y ~ a + b'."
            )
        reader = parser.DefaultFormulaParser(feature_flags={"twosided"})
        return tokens[0].token, reader.get_ast(formula, context={}).args[1]
    except errors.FormulaicError as error:
        reason = printable(str(error).split("\n", 1)[0].rstrip("."))
        raise ReleaseError(
            f"The formula {_shown(formula)} is not valid: {reason}. Correct the formula."
        ) from None


def _require_allowed(token: Any, formula: str) -> None:
    """Raise unless the whitelist contains the token."""
    text, kind, first = token.token, _kind(token), formula[token.source_start]
    if kind == "python":
        allowed = first != "{" and _coded(text) is not None
    elif kind == "operator":
        allowed = first != "%" and set(text) <= OPERATORS and "**" not in text
    else:
        allowed = kind == "name" or (kind, text) in PLAIN_TOKENS
    if not allowed:
        raise ReleaseError(f"A formula cannot contain {_shown(text)}: {ALLOWED_TEXT}.")


def _kind(token: Any) -> str:
    return "" if token.kind is None else str(token.kind.value)


def _shown(text: str) -> str:
    cut = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return repr(printable(cut))


def _coded(text: str) -> Factor | None:
    """Return the factor of an expression ``C(name, ref=level)``, or None for anything else.

    Python's parser builds a syntax tree, and this function accepts one shape of the tree.
    """
    quoted = _QUOTED_CALL.match(text)
    code = f"C(_{text[quoted.end() :]}" if quoted else text
    try:
        tree = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        return None
    if tree.func.id != "C" or len(tree.args) != 1 or not isinstance(tree.args[0], ast.Name):
        return None
    name = quoted["name"] if quoted else tree.args[0].id
    if quoted and tree.args[0].id != "_":
        return None
    if not tree.keywords:
        return Factor(text, name, True)
    keyword = tree.keywords[0]
    if len(tree.keywords) > 1 or keyword.arg != "ref":
        return None
    if not isinstance(keyword.value, ast.Constant):
        return None
    level = keyword.value.value
    return Factor(text, name, True, level_text(level)) if isinstance(level, _LEVELS) else None


def _terms(tree: Any) -> list[Term]:
    """Return the terms of formulaic's tree, without repetitions.

    A loop reads sums, because recursion would be too deep for long sums. Parentheses and products
    use recursion.
    """
    parts: list[tuple[str, Any]] = []
    while hasattr(tree, "operator") and tree.operator.symbol in "+-" and len(tree.args) == 2:
        left, right = tree.args
        parts.append((tree.operator.symbol, right))
        tree = left
    found = dict.fromkeys(_part(tree))
    for symbol, part in reversed(parts):
        for term in _part(part):
            if symbol == "+":
                found.setdefault(term)
            else:
                found.pop(term, None)
    return list(found)


def _part(tree: Any) -> list[Term]:
    """Return the terms of a token, a product, a sum in parentheses, or a sign."""
    if not hasattr(tree, "operator"):
        if _kind(tree) == "value":
            return [INTERCEPT]
        coded = _coded(tree.token) if _kind(tree) == "python" else None
        return [Term.of(coded or Factor(tree.token, tree.token))]
    symbol = tree.operator.symbol
    if len(tree.args) == 1:
        return _terms(tree.args[0]) if symbol == "+" else []
    if symbol in "+-":
        return _terms(tree)
    one, other = (_terms(part) for part in tree.args)
    if INTERCEPT in one or INTERCEPT in other:
        raise ReleaseError("A formula cannot multiply by 0 or 1. Remove this product.")
    if len(one) * len(other) > MAX_PRODUCT_TERMS:
        raise ReleaseError(
            f"A product in the formula has {len(one) * len(other)} terms, but at most "
            f"{MAX_PRODUCT_TERMS} are allowed. Name the products that you need."
        )
    products = [_product(first, second) for first in one for second in other]
    return products if symbol == ":" else [*one, *other, *products]


def _product(one: Term, other: Term) -> Term:
    term = Term.of(*one.factors, *other.factors)
    if len(term.factors) > 2:
        raise ReleaseError(
            f"The term {_shown(term.text)} has {len(term.factors)} factors, but a release holds "
            "products of two columns only. Use products of two columns."
        )
    return term


def _resolved(release: Release, target: str, terms: list[Term]) -> Regression:
    """Return the features of the terms, or raise if the release lacks one of them.

    Without an intercept, the first categorical column has no reference level, as in R.
    """
    features: dict[str, str] = {}  # name in the output, by the name of the feature or column
    references: dict[str, str] = {}
    squares = []
    # Column with all its levels. None until a formula without an intercept has named one.
    whole = "" if INTERCEPT in terms else None
    for term in terms:
        if term == INTERCEPT:
            continue
        factor, *others = term.factors
        if others:
            name = _held_product(release, term)
            features.setdefault(name, term.text)
            if factor.name == others[0].name:
                squares.append(SQUARE_NOTE.format(term=term.text, name=factor.name))
            continue
        column = release.schema.encoded_columns.get(factor.name)
        if not isinstance(column, Categorical):
            features.setdefault(_number_or_level(release, factor), factor.text)
            continue
        if factor.name in references or factor.name == whole:
            raise ReleaseError(
                f"The formula names the column {factor.name!r} twice. Remove one of its terms."
            )
        reference = _reference(column, factor)
        if whole is None:
            whole = factor.name
            for label in column.labels:
                features.setdefault(f"{whole}={label}", f"{factor.text}[{label}]")
            continue
        references[factor.name] = reference
        for label in column.labels:
            if label != reference:
                features.setdefault(f"{factor.name}={label}", f"{factor.text}[T.{label}]")
    stated = ", ".join(f"{name}={level}" for name, level in references.items())
    notes = [f"Reference levels: {stated}."] if references else []
    labels = {name: label for name, label in features.items() if name != label}
    return Regression(target, tuple(features), labels, (*notes, *squares), INTERCEPT in terms)


def _number_or_level(release: Release, factor: Factor) -> str:
    """Return the name of a numeric column or of a level, or raise."""
    if not factor.coded:
        return release.columns[position(release, factor.name)]
    position(release, factor.name)  # raises for an unknown name
    raise ReleaseError(
        f"{factor.name!r} is not a column of categories, so the release holds no levels of it. "
        f"Write {factor.name} without C(), or declare the column as categorical in the schema."
    )


def _reference(column: Categorical, factor: Factor) -> str:
    """Return the reference level of a categorical column."""
    if factor.reference is None:
        return column.labels[0]
    if factor.reference not in column.labels:
        raise ReleaseError(
            f"{factor.name!r} has no level {_shown(factor.reference)}. Choose from: "
            f"{', '.join(column.labels[:MAX_LISTED_NAMES])}."
        )
    return factor.reference


def _held_product(release: Release, term: Term) -> str:
    """Return the name of the derived column for a product of two columns, or raise."""
    schema, wanted = release.schema, sorted(factor.name for factor in term.factors)
    for factor in term.factors:
        column = schema.encoded_columns.get(factor.name)
        if column is None:
            position(release, factor.name)  # raises for an unknown name
        if not isinstance(column, Numeric) or isinstance(column, Date | Time | Derived):
            raise ReleaseError(
                f"A release cannot hold the product {_shown(term.text)}, because {factor.name!r} "
                "is not a column of numbers, counts or flags. For a level, declare a flag column "
                "in the schema and use the product with this flag."
            )
        if factor.coded:
            _number_or_level(release, factor)
    for name, formula in schema.derived.items():
        if formula.log is None and sorted(formula.parents) == wanted:
            return name
    raise ReleaseError(
        f"The release does not hold the product {_shown(term.text)}. For the next release, add "
        f"this line under [derived] in the schema: {_line(schema, term)}"
    )


def _line(schema: Schema, term: Term) -> str:
    """Return the line of a schema that declares a product."""
    one, other = (factor.name for factor in term.factors)
    key = f"{one}_squared" if one == other else f"{one}_{other}"
    while key in schema.encoded_columns:
        key += "_"
    shown_key = key if _PLAIN_KEY.fullmatch(key) else _quoted(key)
    if one == other:
        return f"{shown_key} = {{ square = {_quoted(one)} }}"
    return f"{shown_key} = {{ product = [{_quoted(one)}, {_quoted(other)}] }}"


def _quoted(text: str) -> str:
    """Return a TOML string. The schema refuses control characters in names."""
    return json.dumps(text, ensure_ascii=False)
