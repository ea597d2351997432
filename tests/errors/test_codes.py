"""Every message has a code; a code has one meaning, and does not depend on the text."""

import ast
import functools
import pickle
import tomllib
import warnings

import pytest

from stanadapt.errors import (
    NOTE,
    STAGES,
    VERDICT,
    Code,
    ConvergenceWarning,
    Message,
    StanadaptError,
    all_codes,
    codes,
    codes_of,
    warn,
)
from tests.helpers.repository import PACKAGE, parsed

CODES = all_codes()
# the position of the code among the arguments of what every file may call
TAKE_A_CODE = {"StanadaptError": 0, "Message": 0, "Check": 0, "Note": 0}
TAKE_A_CODE |= {"require_exact_density": 1}
# what functions with a parameter `code` return, if that is the code of a message and not a program
MADE_WITH_A_CODE = ("StanadaptError", "Verification")


def test_codes_have_a_name_a_kind_and_a_meaning():
    for name, code in CODES.items():
        assert name.isidentifier(), name
        assert name == name.lower()
        assert code.kind in (*STAGES, VERDICT, NOTE), name
        for text in (code.meaning, code.cure or "Each message states the cure."):
            assert text[0].isupper(), name
            assert text.endswith("."), name
    table = tomllib.loads((PACKAGE / "errors/messages.toml").read_text("utf-8"))
    assert sum(map(len, table.values())) == len(
        {name for names in table.values() for name in names}
    )
    for kind, entries in table.items():
        for name, entry in entries.items():
            assert {"meaning"} <= entry.keys() <= {"meaning", "cure"}, f"{kind}.{name}"
    with pytest.raises(ValueError, match="out_of_range"):
        Code("out_of_range", "settings", "It is.", "Do not.")
    for code in ("low_ess", "no_such_code"):
        with pytest.raises(ValueError, match=code):
            StanadaptError(code, "It is wrong.")


def test_codes_of_authors_and_stages_are_given():
    code = Code("made_up_for_this_test", NOTE, "It is.")
    try:
        copied = pickle.loads(pickle.dumps(code))
        assert all_codes()["made_up_for_this_test"] is code
        assert (copied, copied.kind, copied.meaning) == (code, NOTE, "It is.")
    finally:
        codes._table().pop("made_up_for_this_test")
    kinds = {
        (place, code): CODES[code].kind
        for place, made, codes in given_codes()
        for code in codes
        if made == "StanadaptError" and code in CODES
    }
    assert len(kinds) > 250
    assert {at: kind for at, kind in kinds.items() if kind not in STAGES} == {}


def takers(tree):
    """Return (position of the code, what is made) by name, for functions of a file."""
    found = {name: (position, name) for name, position in TAKE_A_CODE.items()}
    for node in tree:
        made = getattr(getattr(node, "returns", None), "id", None)
        if isinstance(node, ast.FunctionDef) and made in MADE_WITH_A_CODE:
            names = [argument.arg for argument in node.args.args]
            if "code" in names:
                found[node.name] = names.index("code") - (names[0] == "self"), made
    return found


@functools.cache
def given_codes():
    """Return (place, what takes the code, literals that it may be) for each code that is given."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        tree = parsed(path)
        known = takers(tree)
        passed_on = {
            id(inner)
            for node in tree
            if isinstance(node, ast.FunctionDef) and "code" in [a.arg for a in node.args.args]
            for inner in ast.walk(node)
            if isinstance(inner, ast.Name) and inner.id == "code"
        }
        for node in tree:
            given, made = [], ""
            if isinstance(node, ast.FunctionDef) and node.name in known:
                names = [argument.arg for argument in node.args.args]
                backwards = dict(zip(reversed(names), reversed(node.args.defaults), strict=False))
                given = [backwards[name] for name in ("code",) if name in backwards]
                made = known[node.name][1]
            elif isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                position, made = known.get(called, (len(node.args), ""))
                given = node.args[position:][:1]
                given += [k.value for k in node.keywords if k.arg == "code" and made]
            for argument in [each for each in given if id(each) not in passed_on]:
                place = f"{path.relative_to(PACKAGE)}:{argument.lineno}"
                found.append((place, made, literals(argument, tree)))
    return found


ANY = object()  # in a path: whichever element
# codes that are read from files
READ = ("results/arviz_object.py", "runs/tree.py", "diagnostics/verdict.py")


def literals(node, tree, *path):
    """Return the strings that an expression may be, or may have at a path of indices in it.

    A name stands for all that its file assigns to it; what cannot be found is None. Parameters and
    attributes named `code` have none: they are found where they are given.
    """
    nodes, rest = [], path[1:]
    match node:
        case ast.Constant() if not path:
            return [node.value]
        case ast.Attribute(attr="code"):
            return []
        case ast.Name():
            found = assigned(node.id, tree, path)
            return found or [None]
        case ast.IfExp():
            nodes, rest = [node.body, node.orelse], path
        case ast.BinOp():
            nodes, rest = [node.left, node.right], path
        case ast.Starred():
            nodes, rest = [node.value], (ANY, *path)
        case ast.Subscript():
            nodes, rest = [node.value], (ANY, *path)
        case ast.Call(func=ast.Attribute(value=table, attr="items")):
            nodes = [table]
        case ast.Tuple() | ast.List() if path:
            nodes = node.elts if path[0] is ANY else node.elts[path[0] :][:1]
        case ast.Dict() if path:
            nodes = node.values if path[0] is ANY else node.keys
        case _:
            return [None]
    return [text for each in nodes for text in literals(each, tree, *rest)]


def assigned(name, tree, path):
    """Return the literals of all that a file assigns to a name, at a path of indices in it."""
    found = []
    for node in tree:
        loop = isinstance(node, ast.For | ast.comprehension)
        if not (loop or isinstance(node, ast.Assign)):
            continue
        value, way = (node.iter, (ANY,)) if loop else (node.value, ())
        for target in [node.target] if loop else node.targets:
            parts = enumerate(target.elts) if isinstance(target, ast.Tuple) else ()
            for index in [(i,) for i, part in parts if ast.unparse(part) == name]:
                found += literals(value, tree, *way, *index, *path)
            if ast.unparse(target) == name:
                found += literals(value, tree, *way, *path)
    return found


def test_errors_are_given_codes_of_the_table_alone():
    given = given_codes()
    assert len(given) > 400  # the search finds them
    unknown = [
        (place, code)
        for place, made, codes in given
        for code in codes
        if code not in CODES and not place.startswith(READ)
    ]
    assert unknown == []
    # as a whole string in a file of the package: some pass through tables and variables
    strings = {
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in parsed(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(CODES.keys() - strings) == []


@pytest.mark.parametrize(("source", "code"), [
    ("code = 'a'\nraise Message(code, text)", "a"),
    ("for code, text in {'a': 1}.items():\n    Message(code, text)", "a"),
    ("rows = [(1, 'a'), *[(2, 'a')]]\n[Message(code, 1) for _, code in rows]", "a"),
    ("TABLE = {'x': ('a', 1)}\ncode, text = TABLE[x]\nMessage(code, text)", "a"),
    ("other = 'a' if x else 'a'\nMessage(other, text)", "a"), ("Message(found(), text)", None),
    ("Message(other, text)", None),
])  # fmt: skip
def test_a_code_is_followed_through_variables(source, code):
    tree = list(ast.walk(ast.parse(source)))
    (call,) = [n for n in tree if isinstance(n, ast.Call) and ast.unparse(n.func) == "Message"]
    assert set(literals(call.args[0], tree)) == {code}


def test_messages_and_errors_are_texts_with_a_code():
    message = Message("out_of_range", "x is too large.")
    assert message == "x is too large."
    assert codes_of([message, "plain"]) == ["out_of_range", ""]
    copied = pickle.loads(pickle.dumps(message))
    assert (copied, copied.code) == (message, "out_of_range")
    error = StanadaptError("out_of_range", "x is too large.", " Stan's words \n")
    assert str(error) == "settings: x is too large. [out_of_range]\nStan says:\nStan's words"
    assert (error.stage, error.code) == ("settings", "out_of_range")
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.code) == (str(error), error.code)


def test_a_warning_has_a_code_and_points_to_the_caller():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn(Message("out_of_range", "x is large."), ConvergenceWarning)
    assert caught[0].message.code == "out_of_range"
    assert str(caught[0].message) == "x is large. [out_of_range]"
    assert caught[0].filename == __file__
    between = {"__name__": "numba.core.caching", "warn": warn}
    exec("def load(text):\n    warn(text)", between)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        between["load"]("words")
    assert caught[0].filename == __file__
