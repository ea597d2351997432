"""The user's data, checked against the program's data block and written as JSON text for Stan.

The check is needed because the embedded backend only counts elements: it silently accepts a
transposed or flattened matrix and computes with the wrong one.
"""

import difflib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import stanio

from stanadapt.errors import StanadaptError
from stanadapt.results.files import read_text
from stanadapt.targets.stan.declarations import Declaration, Known, evaluate, parse
from stanadapt.targets.stan.program import Program, block, user_path

_SMALLEST, _LARGEST = -(2**31), 2**31 - 1
# The only strings that Stan accepts as numbers.
_INFINITE = {"Inf": math.inf, "Infinity": math.inf, "-Inf": -math.inf, "-Infinity": -math.inf}
_NONFINITE = {"NaN": math.nan, **_INFINITE}
_DECIMAL = (float, np.floating)
_NUMBERS = (int, np.integer, np.bool_, *_DECIMAL)
_MODEL_MISSING = (
    "Stan has no missing values: give the observed values and their indices, and declare the "
    "missing ones as parameters."
)
_NO_EMPTY_INT = "The embedded backend cannot read it, CmdStan can (`stanadapt install-cmdstan`)."


class _Variable(NamedTuple):
    """A declared variable whose value is being checked; `sizes` is None where unknown."""

    declaration: Declaration
    sizes: tuple[int | None, ...]
    from_json: bool

    @property
    def name(self) -> str:
        return self.declaration.name

    def error(self, index: tuple[int, ...], came: str, hint: str) -> StanadaptError:
        """What came, what was declared, what to try; `index` counts from 0, the message from 1."""
        declared = self.declaration.to_stan(self.sizes)
        message = f"{_entry(self.name, index)} {came}, but {self.name} is declared as `{declared}`."
        return StanadaptError("data", f"{message} {hint}")


def to_json(
    data: Mapping[str, Any] | str | PathLike | None,
    program: Program,
    *,
    allow_nonfinite: bool = False,
    allow_empty_int: bool = False,
) -> str:
    """The data as JSON text that every backend reads as the user meant it.

    Valid JSON text is returned unchanged, except where readers of Stan data would misread it:
    undeclared entries that Stan could not read are left out, integers beyond 32 bits get a
    decimal point if the variable is real, NaN is put in quotes.

    Parameters
    ----------
    data
        A mapping of names to numbers, lists or arrays (numpy, pandas); JSON text that starts with
        a brace; the path of a JSON file; None for a program without data.
    program
        The program whose data block declares what is required.
    allow_nonfinite
        Accept NaN and infinity for real variables.
    allow_empty_int
        Accept integer arrays without elements, which the embedded backend cannot always read.

    Raises
    ------
    StanadaptError
        Stage "files" if the file cannot be read; stage "data" if a variable is missing or has the
        wrong shape, type or value: the message names it, its declaration and what came.

    """
    given, text = _load(data)
    declarations = parse(block(program.code, "data"))
    _require_all(given, declarations)
    booleans = text is not None and ("true" in text or "false" in text)
    known: dict[str, Known] = {}
    for declaration in declarations:
        if not declaration.checked:
            continue
        known_sizes = [evaluate(dim, known) for dim in declaration.dims]
        sizes = tuple(size if isinstance(size, int) else None for size in known_sizes)
        variable, value = _Variable(declaration, sizes, text is not None), given[declaration.name]
        array = _shaped(_numbers(value, variable, booleans), variable)
        if declaration.is_int and array.size == 0 and not allow_empty_int:
            raise variable.error((), "is empty", _NO_EMPTY_INT)
        if declaration.is_int or not allow_nonfinite:
            _require_finite(array, variable)
        array = _integers(value, array, variable) if declaration.is_int else array
        _check_bounds(array, variable, known)
        known[declaration.name] = Known(declaration, array)
    if text is not None and not _is_misread(given, known, declarations, booleans):
        return text
    return _written(given, known, declarations)


def digest(json_text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 hash of the text."""
    return sha256(json_text.encode()).hexdigest()[:16]


def _load(data: Any) -> tuple[dict[str, Any], str | None]:
    """The values by name, and the JSON text if they were given as such."""
    if data is None:
        return {}, None
    if isinstance(data, Mapping):
        return {name: _plain(data[name]) for name in data}, None
    if not isinstance(data, str | PathLike):
        raise StanadaptError(
            "data",
            "The data must be a mapping of names to values, JSON text, the path of a JSON file or "
            f'None, got {type(data).__name__}. For a table, use {{"x": table["x"], ...}}.',
        )
    if isinstance(data, str) and data.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        text, source = data.lstrip("\ufeff"), "The data given as text"
    else:
        path = user_path(data)
        text, source = read_text(path, "data file"), f"The data file {path}"
    try:
        values = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        message = f"{source} is not valid JSON: {error}. Stan's data are a JSON object of numbers."
        raise StanadaptError("data", message) from None
    if not isinstance(values, dict):
        expected = "must be a JSON object, names and values in braces"
        raise StanadaptError("data", f"{source} {expected}, got {_describe(values)}.")
    return values, text


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):  # the embedded backend would use the last, CmdStan refuses
        names = [name for name, _ in pairs]
        twice = next(name for name in values if names.count(name) > 1)
        raise StanadaptError("data", f"The data give {twice} twice. Remove one of the two.")
    return values


def _plain(value: Any) -> Any:
    """A value as numbers, lists and numpy arrays; masked elements become NaN."""
    if isinstance(value, np.ma.MaskedArray):
        masked = np.ma.is_masked(value)
        return np.ma.filled(value.astype(float), np.nan) if masked else value.data
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    value = dict(value) if isinstance(value, Mapping) else value  # a Dataset claims to be an array
    return np.asarray(value) if hasattr(value, "__array__") or isinstance(value, range) else value


def _require_all(given: Mapping, declarations: Sequence[Declaration]) -> None:
    missing = [declaration for declaration in declarations if declaration.name not in given]
    if not missing:
        return
    declared = {declaration.name for declaration in declarations}
    spare = {str(name).lower(): str(name) for name in given if name not in declared}
    hint = ""
    for absent in missing:
        for near in difflib.get_close_matches(absent.name.lower(), spare, 1, 0.75):
            hint += f" Is {spare[near]} in the data meant to be {absent.name}?"
    came = f"They contain {', '.join(map(str, given))}"[:500] if given else "They are empty"
    raise StanadaptError(
        "data",
        f"The data lack {', '.join(absent.name for absent in missing)}; the program declares "
        f"{', '.join(f'`{absent.to_stan()}`' for absent in missing)}. {came}.{hint}",
    )


def _numbers(value: Any, variable: _Variable, booleans: bool) -> np.ndarray:
    """`value` as an array of numbers: float64 for a real variable, unchanged for an int."""
    try:
        array = np.asarray(value)
    except ValueError:
        came = f"is ragged ({_raggedness(value, variable.name)})"
        raise variable.error((), came, "Lists of one level must have equal lengths.") from None
    if array.dtype.kind not in "iuf" or booleans:
        array = _one_by_one(np.asarray(value, dtype=object), variable)
    return array if variable.declaration.is_int else array.astype(np.float64, copy=False)


def _one_by_one(objects: np.ndarray, variable: _Variable) -> np.ndarray:
    """An array of objects as numbers, or an error that names the first other element."""
    flat: list[Any] = []
    for index, leaf in np.ndenumerate(objects):
        if isinstance(leaf, str) and leaf in _NONFINITE:
            flat.append(_NONFINITE[leaf])
        elif not isinstance(leaf, _NUMBERS) or (isinstance(leaf, bool) and variable.from_json):
            missing = leaf is None or type(leaf).__name__ in ("NAType", "NaTType")
            hint = _MODEL_MISSING if missing else "Stan's data are numbers."
            hint = "Write 1 for true and 0 for false." if isinstance(leaf, bool) else hint
            raise variable.error(index, f"is {_describe(leaf)}", hint)
        else:
            flat.append(leaf if isinstance(leaf, float | np.floating) else int(leaf))
    if variable.declaration.is_int and all(isinstance(number, int) for number in flat):
        # They may exceed 64 bits; the range is checked later, on the objects.
        return np.array(flat, dtype=object).reshape(objects.shape)
    return np.array([_float(number) for number in flat]).reshape(objects.shape)


def _float(number: int | float) -> float:
    if isinstance(number, int) and abs(number) > sys.float_info.max:
        return math.inf if number > 0 else -math.inf
    return float(number)


def _raggedness(value: Any, name: str) -> str:
    """The first entry, level by level, whose length differs from the first of its level."""
    level: list[tuple[tuple[int, ...], Any]] = [((), value)]
    while level:
        kinds = [_length(item) for _, item in level]
        for (index, _), kind in zip(level, kinds, strict=True):
            if kind != kinds[0]:
                return f"{_entry(name, level[0][0])} {kinds[0]}, {_entry(name, index)} {kind}"
        lists = level if kinds[0] != "is not a list" else []
        level = [((*index, i), child) for index, item in lists for i, child in enumerate(item)]
    return "too many levels of lists"


def _length(item: Any) -> str:
    is_list = isinstance(item, list | tuple) or getattr(item, "ndim", 0) > 0
    return f"has length {len(item)}" if is_list else "is not a list"


def _shaped(array: np.ndarray, variable: _Variable) -> np.ndarray:
    """Return `array` if it has the declared shape."""
    sizes = variable.sizes
    if any(size is not None and size < 0 for size in sizes):
        raise variable.error((), "cannot have a negative size", "Correct what sets the size.")
    if _fits(array.shape, sizes):
        return array
    # In JSON a 0 x 3 matrix, a 0 x 2 matrix and an empty vector look the same.
    if array.size == 0 and (0 in sizes or None in sizes):
        return np.zeros([size or 0 for size in sizes], array.dtype)
    raise variable.error((), f"is {_shape_text(array.shape)}", _shape_hint(array, variable))


def _fits(shape: tuple[int, ...], sizes: tuple[int | None, ...]) -> bool:
    pairs = zip(shape, sizes, strict=False)
    return len(shape) == len(sizes) and all(size in (None, length) for length, size in pairs)


def _shape_text(shape: tuple[int, ...]) -> str:
    if len(shape) < 2:
        return f"a flat list of {shape[0]}" if shape else "a single number"
    return f"of shape {shape}"


def _shape_hint(array: np.ndarray, variable: _Variable) -> str:
    """What to try if the shape is wrong, the likeliest cause first."""
    sizes, name = variable.sizes, variable.name
    if array.ndim > 1 and _fits(array.swapaxes(-1, -2).shape, sizes):
        how = f"{name}.T" if array.ndim == 2 else f"{name}.swapaxes(-1, -2)"
        return f"The transpose fits: give {how}, because a matrix is a list of its rows."
    if not sizes:
        return "Give the number itself, not a list."
    known = [size for size in sizes if size is not None]
    if array.ndim and len(known) == len(sizes) and array.size == math.prod(known):
        nested = "a flat list" if len(sizes) == 1 else "nested lists, the outermost dimension first"
        how = f"{name}.reshape({', '.join(map(str, sizes))})"
        return f"The number of values is right: give {nested}, or {how} if they are in that order."
    if array.ndim != len(sizes):
        return f"Give {'a list' if len(sizes) == 1 else f'{len(sizes)} levels of lists'}."
    dims = zip(variable.declaration.dims, sizes, array.shape, strict=True)
    wrong = [f"{dim.source} = {size}" for dim, size, length in dims if size not in (None, length)]
    return f"Correct {name} or its size, {' and '.join(dict.fromkeys(wrong))}."


def _require_finite(array: np.ndarray, variable: _Variable) -> None:
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    index = _first(~np.isfinite(array))
    if np.isnan(array[index]):
        raise variable.error(index, "is NaN", _MODEL_MISSING)
    raise variable.error(index, "is infinite", "Data must be finite: remove such values.")


def _integers(value: Any, array: np.ndarray, variable: _Variable) -> np.ndarray:
    """`array` as int64, if all its elements are integers in Stan's range."""
    if array.dtype.kind == "f" and array.size:  # one decimal makes the whole array float
        objects, broken = np.asarray(value, dtype=object), array % 1 != 0
        decimal = (i for i, leaf in np.ndenumerate(objects) if isinstance(leaf, _DECIMAL))
        index = _first(broken) if broken.any() else next(decimal, None)
        if index is not None:
            raise _decimal_error(index, float(array[index]), variable)
        array = objects
    wrong = np.asarray((array < _SMALLEST) | (array > _LARGEST), dtype=bool)
    if wrong.any():
        index = _first(wrong)
        hint = f"Stan's int ranges from {_SMALLEST} to {_LARGEST}: declare it real."
        raise variable.error(index, f"is {array[index]}", hint)
    return array.astype(np.int64)


def _decimal_error(index: tuple[int, ...], number: float, variable: _Variable) -> StanadaptError:
    name = variable.name
    if number % 1:
        hint = "Declare it real, or round the data."
    elif variable.from_json:
        hint = f"Write {int(number)}: Stan accepts no decimal point in an int."
    else:
        how = f"np.asarray({name}).astype(int)" if index else f"int({name})"
        hint = f"Stan accepts no decimal number for an int: give {how}."
    return variable.error(index, f"is {float(number)!r}", hint)


def _check_bounds(array: np.ndarray, variable: _Variable, known: Mapping[str, Known]) -> None:
    declaration = variable.declaration
    for side, expression in (("lower", declaration.lower), ("upper", declaration.upper)):
        bound = None if expression is None else evaluate(expression, known)
        # A container of bounds refers to the innermost dimensions, as the type's own sizes do.
        if (
            expression is None
            or bound is None
            or np.shape(bound) != array.shape[array.ndim - np.ndim(bound) :]
        ):
            continue
        wrong = ~np.asarray(array >= bound if side == "lower" else array <= bound)
        if wrong.any():
            index = _first(wrong)
            limit = str(np.broadcast_to(bound, array.shape)[index].item())
            limit = limit if expression.source == limit else f"{expression.source} = {limit}"
            where = f"{'below' if side == 'lower' else 'above'} the {side} bound {limit}"
            many = f" ({wrong.sum()} of {wrong.size} values are)" if wrong.ndim else ""
            hint = "Correct the data or the bound."
            raise variable.error(index, f"is {array[index].item()}, {where}{many}", hint)


def _is_misread(given: Mapping, known: Mapping, declarations: Sequence, booleans: bool) -> bool:
    """Whether some reader of Stan's JSON misreads text that is valid for the program."""
    for name in given.keys() - {declaration.name for declaration in declarations}:
        # Stan refuses all of the text for one string, boolean or null, even in an unused entry.
        if booleans or not _is_numeric(given[name]):
            return True
    for name, (declaration, array) in known.items():
        if declaration.is_int:
            continue
        # stanli does not accept bare NaN. CmdStan 2.27 wraps large integers around: 3000000000 in a
        # real variable silently becomes -1294967296.
        leaves = np.asarray(given[name], dtype=object).flat if (abs(array) > _LARGEST).any() else ()
        if any(isinstance(leaf, int) and abs(leaf) > _LARGEST for leaf in leaves):
            return True
        if not np.isfinite(array).all():
            return True
    return False


def _is_numeric(value: Any) -> bool:
    try:
        array = np.asarray(value)
    except ValueError:
        return False
    return array.dtype.kind in "iuf" and bool(np.isfinite(array).all())


def _written(given: Mapping, known: Mapping, declarations: Sequence) -> str:
    names = [declaration.name for declaration in declarations]
    values = {n: _writable(known[n].value) if n in known else given[n] for n in names}
    try:
        return stanio.dump_stan_json(values)
    except (TypeError, ValueError) as error:
        raise StanadaptError("data", f"The data cannot be written as JSON: {error}.") from None


def _writable(array: np.ndarray) -> np.ndarray:
    """`array` with NaN and infinity as the strings that all readers of Stan's JSON accept."""
    if np.isfinite(array).all():
        return array
    objects = array.astype(object)
    objects[np.isnan(array)] = "NaN"
    objects[array == math.inf] = "Inf"
    objects[array == -math.inf] = "-Inf"
    return objects


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


def _entry(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(str(i + 1) for i in index)}]" if index else name


def _describe(value: Any) -> str:
    """A value as error messages show it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds: dict[type, str] = {str: f"the string {value!r}"[:60], list: "a list", dict: "an object"}
    return kinds.get(type(value), f"{type(value).__name__} {value!r}"[:60])
