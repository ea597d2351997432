"""Check the user's data against the program's data block, and write them as JSON for Stan.

The check is needed because the embedded backend only counts elements: it silently accepts a
transposed or flattened matrix, and computes with the wrong one.
"""

import difflib
import math
import sys
from collections.abc import Mapping, Sequence
from json import dumps, loads
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from stanio.json import process_value

from stanadapt.errors import Message, StanadaptError, warn
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.declarations import DataVariable, Declaration, evaluate
from stanadapt.targets.stan.given_data import GivenData, describe, load, not_a_list
from stanadapt.targets.stan.program import Program

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
    """A declared variable during the check of its value; an unknown size is None."""

    declaration: Declaration
    sizes: tuple[int | None, ...]
    from_json: bool

    @property
    def name(self) -> str:
        return self.declaration.name

    def error(self, code: str, index: tuple[int, ...], problem: str, hint: str) -> StanadaptError:
        """Make an error from the problem, the declaration and a hint; `index` counts from 0."""
        declared = self.declaration.to_stan(self.sizes)
        entry = _entry(self.name, index)
        message = f"{entry} {problem}, but {self.name} is declared as `{declared}`."
        return StanadaptError(code, f"{message} {hint}")


def check(
    data: Mapping[str, Any] | str | PathLike | CheckedData | None,
    program: Program,
    *,
    compiled: bool = False,
) -> CheckedData:
    """Return the data, with JSON text that every backend reads as the user meant it.

    Valid JSON text is kept, unless it is large, or some reader of Stan data would misread it. Then
    undeclared entries that Stan cannot read are omitted, integers beyond 32 bits get a decimal
    point if the variable is real, and NaN is put in quotes. For the forms of data see `Target` and
    `given_data`. `compiled` accepts what only compiled programs can always read: NaN and infinity
    for real variables, and integer arrays without elements.

    StanadaptError, stage "data", names a variable that is missing or has the wrong shape, type or
    value, its declaration and the problem.
    """
    given = load(data)
    declarations = program.declared("data")
    given = _with_number_of_rows(given, declarations)
    values, text = given.values, given.text
    _require_all(given, declarations)
    booleans = text is not None and ("true" in text or "false" in text)
    variables: dict[str, DataVariable] = {}
    for declaration in declarations:
        if not declaration.checked:
            continue
        evaluated = [evaluate(dim, variables) for dim in declaration.dims]
        sizes = tuple(size if isinstance(size, int) else None for size in evaluated)
        variable, value = _Variable(declaration, sizes, text is not None), values[declaration.name]
        array = _require_shape(_numbers(value, variable, booleans), variable)
        if declaration.is_int and array.size == 0 and not compiled:
            raise variable.error("data_wrong_shape", (), "is empty", _NO_EMPTY_INT)
        if declaration.is_int or not compiled:
            _require_finite(array, variable)
        array = _integers(array, variable) if declaration.is_int else array
        _check_bounds(array, variable, variables)
        variables[declaration.name] = DataVariable(declaration, array)
    if text is not None and not _is_misread(values, variables, declarations, booleans):
        return CheckedData.of_values(values, text)
    own = isinstance(data, CheckedData)
    return _written(values, variables, declarations, own)


def _require_all(given: GivenData, declarations: Sequence[Declaration]) -> None:
    values = given.values
    missing = [declaration for declaration in declarations if declaration.name not in values]
    if not missing:
        return
    declared = {declaration.name for declaration in declarations}
    spare = {str(name).lower(): str(name) for name in values if name not in declared}
    hint = ""
    for absent in missing:
        for near in difflib.get_close_matches(absent.name.lower(), spare, 1, 0.75):
            hint += f" Is {spare[near]} in the data meant to be {absent.name}?"
    if given.sizes and all(absent.is_int and not absent.dims for absent in missing):
        hint += " " + given.sizes.replace('"N"', f'"{missing[0].name}"')
        if missing[1:] and given.sizes.startswith("A table"):
            hint += ' stan_data(data, groups={"group": "J"}) counts rows and groups.'
    content = f"They contain {', '.join(map(str, values))}"[:500] if values else "They are empty"
    raise StanadaptError(
        "data_missing",
        f"The data lack {', '.join(absent.name for absent in missing)}; the program declares "
        f"{', '.join(f'`{absent.to_stan()}`' for absent in missing)}. {content}.{hint}",
    )


def _with_number_of_rows(given: GivenData, declarations: Sequence[Declaration]) -> GivenData:
    """Add the number of rows of a table, if it is all that is missing, and size of a column."""
    missing = [declared for declared in declarations if declared.name not in given.values]
    if given.rows is None or len(missing) != 1 or not missing[0].is_int or missing[0].dims:
        return given
    name = missing[0].name
    sized = [d for d in declarations if d.dims and d.name in given.values]
    if not any(d.dims[0].source == name for d in sized):
        return given
    warn(Message("size_from_rows", f"{name} = {given.rows}, the number of rows of the table."))
    return given._replace(values={**given.values, name: given.rows})


def _numbers(value: Any, variable: _Variable, booleans: bool) -> np.ndarray:
    """Convert a value to an array: float64 for a real variable, the given type for an int."""
    if found := not_a_list(value, variable.name):
        raise variable.error("data_not_numeric", (), *found)
    try:
        array = np.asarray(value)
    except ValueError:
        problem = f"is ragged ({_raggedness(value, variable.name)})"
        hint = "Lists of one level must have equal lengths."
        raise variable.error("data_wrong_shape", (), problem, hint) from None
    if array.dtype.kind in "mM":  # as objects, those in nanoseconds would be Python's integers
        raise _time_error(array, variable)
    if array.dtype.kind not in "iuf" or booleans:
        array = _one_by_one(np.asarray(value, dtype=object), variable)
    return array if variable.declaration.is_int else array.astype(np.float64, copy=False)


def _time_error(array: np.ndarray, variable: _Variable) -> StanadaptError:
    date = array.dtype.kind == "M"
    amount = f"({variable.name} - {variable.name}.min())" if date else variable.name
    problem = f"holds {'dates' if date else 'durations'} ({array.dtype})"
    hint = f"Give numbers, such as days: {amount} / np.timedelta64(1, 'D')."
    return variable.error("data_not_numeric", (), problem, hint)


def _one_by_one(objects: np.ndarray, variable: _Variable) -> np.ndarray:
    """Convert an array of objects to numbers; an error names the first other element."""
    flat: list[Any] = []
    for index, leaf in np.ndenumerate(objects):
        if isinstance(leaf, str) and leaf in _NONFINITE:
            flat.append(_NONFINITE[leaf])
        elif isinstance(leaf, np.timedelta64):  # to NumPy an integer
            raise _time_error(np.asarray(leaf), variable)
        elif not isinstance(leaf, _NUMBERS) or (isinstance(leaf, bool) and variable.from_json):
            missing = leaf is None or type(leaf).__name__ in ("NAType", "NaTType")
            hint = _MODEL_MISSING if missing else "Stan's data are numbers."
            hint = "Write 1 for true and 0 for false." if isinstance(leaf, bool) else hint
            if isinstance(leaf, str) and not variable.from_json and index:
                # one word makes pandas read a whole column as text: it is the culprit
                index, leaf = next(
                    ((i, x) for i, x in np.ndenumerate(objects) if _is_word(x)), (index, leaf)
                )
                hint += _cure_of_text(leaf, variable.name)
            raise variable.error("data_not_numeric", index, f"is {describe(leaf)}", hint)
        else:
            flat.append(leaf if isinstance(leaf, float | np.floating) else int(leaf))
    if variable.declaration.is_int and all(isinstance(number, int) for number in flat):
        # They may exceed 64 bits; `_integers` checks the range of the objects.
        return np.array(flat, dtype=object).reshape(objects.shape)
    return np.array([_float(number) for number in flat]).reshape(objects.shape)


def _is_word(leaf: Any) -> bool:
    try:
        float(leaf.replace(",", ".") if isinstance(leaf, str) else 0.0)
    except ValueError:
        return True
    return False


def _cure_of_text(leaf: str, name: str) -> str:
    if _is_word(leaf):
        binary = f"({name} == {leaf!r:.40}) * 1 if there are two"
        return f" Correct it, or give pandas.factorize({name})[0] + 1 for categories, {binary}."
    return f" It is a number written as text: give pandas.to_numeric({name})."


def _float(number: int | float) -> float:
    if isinstance(number, int) and abs(number) > sys.float_info.max:
        return math.inf if number > 0 else -math.inf
    return float(number)


def _raggedness(value: Any, name: str) -> str:
    """Name the first entry, level by level, that differs in length from the first of its level."""
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


def _require_shape(array: np.ndarray, variable: _Variable) -> np.ndarray:
    sizes = variable.sizes
    if any(size is not None and size < 0 for size in sizes):
        hint = "Correct the data that set the size."
        raise variable.error("data_out_of_bounds", (), "cannot have a negative size", hint)
    if _fits(array.shape, sizes):
        return array
    # In JSON a 0 x 3 matrix, a 0 x 2 matrix and an empty vector look the same.
    if array.size == 0 and (0 in sizes or None in sizes):
        return np.zeros([size or 0 for size in sizes], array.dtype)
    shape = array.shape
    problem = f"is of shape {shape}" if len(shape) > 1 else f"is a flat list of {array.size}"
    problem = problem if shape else "is a single number"
    raise variable.error("data_wrong_shape", (), problem, _shape_hint(array, variable))


def _fits(shape: tuple[int, ...], sizes: tuple[int | None, ...]) -> bool:
    pairs = zip(shape, sizes, strict=False)
    return len(shape) == len(sizes) and all(size in (None, length) for length, size in pairs)


def _shape_hint(array: np.ndarray, variable: _Variable) -> str:
    """Return a cure for a wrong shape; the likeliest cause is tested first."""
    sizes, name = variable.sizes, variable.name
    if array.ndim > 1 and _fits(array.swapaxes(-1, -2).shape, sizes):
        how = f"{name}.T" if array.ndim == 2 else f"{name}.swapaxes(-1, -2)"
        return f"The transpose fits: give {how}, because a matrix is a list of its rows."
    if not sizes:
        return "Give the number itself, not a list."
    fixed = [size for size in sizes if size is not None]
    if array.ndim and len(fixed) == len(sizes) and array.size == math.prod(fixed):
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
        raise variable.error("data_not_finite", index, "is NaN", _MODEL_MISSING)
    hint = "Data must be finite: remove such values."
    raise variable.error("data_not_finite", index, "is infinite", hint)


def _integers(array: np.ndarray, variable: _Variable) -> np.ndarray:
    """Convert the array to int64 if all its elements are integers in Stan's range, as 2.0 is."""
    broken = array % 1 != 0 if array.dtype.kind == "f" else np.zeros(1, bool)
    if broken.any():
        index = _first(broken)
        hint = "Declare it real, or round the data."
        raise variable.error("data_not_integer", index, f"is {float(array[index])!r}", hint)
    wrong = np.asarray((array < _SMALLEST) | (array > _LARGEST), dtype=bool)
    if wrong.any():
        index = _first(wrong)
        hint = f"Stan's int ranges from {_SMALLEST} to {_LARGEST}: declare it real."
        raise variable.error("data_not_integer", index, f"is {array[index]}", hint)
    return array.astype(np.int64)


def _check_bounds(
    array: np.ndarray, variable: _Variable, variables: Mapping[str, DataVariable]
) -> None:
    declaration = variable.declaration
    for side, expression in (("lower", declaration.lower), ("upper", declaration.upper)):
        bound = None if expression is None else evaluate(expression, variables)
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
            side_of = f"{'below' if side == 'lower' else 'above'} the {side} bound {limit}"
            many = f" ({wrong.sum()} of {wrong.size} values are)" if wrong.ndim else ""
            problem = f"is {array[index].item()}, {side_of}{many}"
            hint = "Correct the data or the bound."
            raise variable.error("data_out_of_bounds", index, problem, hint)


def _is_misread(
    values: Mapping, variables: Mapping, declarations: Sequence, booleans: bool
) -> bool:
    """Return whether some reader of Stan's JSON misreads text that is valid for the program."""
    for name in values.keys() - {declaration.name for declaration in declarations}:
        # Stan refuses the whole text for one string, boolean or null, even in an unused entry.
        if booleans or not _is_numeric(values[name]):
            return True
    for name, (declaration, array) in variables.items():
        if declaration.is_int:
            # CmdStan refuses 2.0 for an int
            if np.asarray(values[name]).dtype.kind == "f" and array.size:
                return True
            continue
        # stanli does not accept bare NaN. CmdStan 2.27 wraps large integers around: 3000000000 in a
        # real variable silently becomes -1294967296.
        large = (abs(array) > _LARGEST).any()
        leaves = np.asarray(values[name], dtype=object).flat if large else ()
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


def _written(values: Mapping, variables: Mapping, declarations: Sequence, own: bool) -> CheckedData:
    """Return the values that are declared; unless they are our `own`, some are the user's."""
    names, entries = [declaration.name for declaration in declarations], {}
    try:
        for n in names:
            checked = n in variables
            entries[n] = variables[n].value if checked else loads(dumps(process_value(values[n])))
    except (TypeError, ValueError) as error:
        message = f"The data cannot be written as JSON: {error}."
        raise StanadaptError("data_not_json", message) from None
    arrays = {n: x for n in variables if isinstance(x := values[n], np.ndarray) and not own}
    shared = [n for n, given in arrays.items() if np.may_share_memory(entries[n], given)]
    return CheckedData(entries, shared=shared)


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


def _entry(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(str(i + 1) for i in index)}]" if index else name
