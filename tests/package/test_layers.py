"""The layers of the package: imports point down only, and foreign packages have their doors."""

import ast
import functools
import re
from graphlib import TopologicalSorter

import pytest

from stanadapt import samplers
from tests.helpers.families import DELETABLE
from tests.helpers.repository import PACKAGE, ROOT, parsed

# from top to bottom: a room imports from rooms below it, and from itself
ROOMS = [
    "cli", "studies", "runs", "samplers", "diagnostics", "targets", "results", "engine", "errors",
]  # fmt: skip
DEPTH = {room: depth for depth, room in enumerate(ROOMS)}
# the modules, or folders, where a foreign package may be imported
DOORS = {
    "llvmlite": ["engine.compiled", "engine.density", "engine.work_queue"],
    "numba": ["engine", "samplers", "targets.python_density"],
    "bridgestan": ["targets.stan.backends"], "stanli": ["targets.stan.backends", "runs.stan_nuts"],
    "cmdstanpy": ["runs.stan_nuts", "targets.stan.install_cmdstan"], "arviz": ["results"],
    "matplotlib": ["studies.report.canvas", "studies.calibration.ranks"],
    "jinja2": ["studies.report.page"], "typer": ["cli"],
    "jax": ["samplers.nice.adversarial", "targets.python_density"],
    "optax": ["samplers.nice.adversarial"],
}  # fmt: skip
# cap of a file and of a body; a module below SMALL lines with one importer says why it stands alone
LONGEST_FILE, LONGEST_BODY, SMALL = 600, 60, 80
# lines of each room, and of the tests: a commit that needs more raises the number on purpose
LINES = {
    "cli": 2_130, "studies": 6_950, "runs": 6_400, "samplers": 23_750, "diagnostics": 5_470,
    "targets": 8_130, "results": 2_930, "engine": 9_410, "errors": 460, "tests": 55_290,
}  # fmt: skip
SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_name(path):
    """Return the name of a module within the package: "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(source) for source in SOURCES}


@pytest.mark.parametrize("room", LINES)
def test_a_room_keeps_its_budget(room):
    folder = ROOT / "tests" if room == "tests" else PACKAGE / room
    lines = sum(path.read_text().count("\n") for path in folder.rglob("*.py"))
    assert lines <= LINES[room], f"{room} has {lines:,} lines: cut, or raise LINES, and say why"


@functools.cache
def imports(path):
    """Return (line, full name) of everything that a file imports, at any depth."""
    found = []
    for node in parsed(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def own_imports(path):
    """Yield (line, module within the package) of what a file imports from the package."""
    for line, name in imports(path):
        if name.split(".")[0] != "stanadapt":
            continue
        own = name.partition(".")[2]
        while own not in MODULES:
            own = own.rpartition(".")[0]
        yield line, own


def test_there_are_nine_rooms_and_the_engine_names_no_sampler():
    entries = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("__")}
    assert entries - {"py", "stan_models"} == set(ROOMS)
    names = set(samplers.registered())
    for path in (PACKAGE / "engine").rglob("*.py"):
        words = {n.id for n in parsed(path) if isinstance(n, ast.Name)}
        assert not words & names, path


def test_imports_between_rooms_point_down():
    """And no room imports the package itself, whose depth would be that of nothing."""
    assert [
        f"{path}:{line}: {own or 'the package itself'}"
        for path in SOURCES
        if (room := module_name(path).split(".")[0]) in DEPTH
        for line, own in own_imports(path)
        if (below := own.split(".")[0]) != room and DEPTH.get(below, -1) <= DEPTH[room]
    ] == []


def test_no_module_imports_itself_in_a_circle():
    graph = {}
    for path in SOURCES:
        name = module_name(path)
        # that a package is imported before its modules is no import of theirs
        graph[name] = {own for _, own in own_imports(path)} - {name}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_foreign_packages_have_their_doors():
    assert [
        f"{path}:{line}: {name}"
        for path in SOURCES
        for line, name in imports(path)
        if (doors := DOORS.get(name.split(".")[0]))
        and not any(f"{module_name(path)}.".startswith(f"{door}.") for door in doors)
    ] == []


def folder_of(module):
    """Return the folder of a module within its room; a package is in the folder that it is."""
    return module if module in PACKAGES else module.rpartition(".")[0]


PACKAGES = {module_name(path) for path in SOURCES if path.name == "__init__.py"}


def test_folders_of_a_room_do_not_import_each_other_in_a_circle():
    graph = {}
    for path in SOURCES:
        name = module_name(path)
        for _, own in own_imports(path):
            one, other = folder_of(name), folder_of(own)
            if one != other and one.split(".")[0] == other.split(".")[0] and name != "samplers":
                graph.setdefault(one, set()).add(other)
    TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.slow
@pytest.mark.parametrize("family", DELETABLE)
def test_a_family_is_named_by_its_own_files_alone(family):
    """So that nothing else has to change if its folder is deleted."""
    own = f"samplers.{family}."
    for path in SOURCES:
        if not f"{module_name(path)}.".startswith(own):
            lines = [line for line, name in own_imports(path) if f"{name}.".startswith(own)]
            lines += [
                node.lineno
                for node in parsed(path)
                if isinstance(node, ast.Attribute) and node.attr == family
                and "samplers" in words(node.value)
            ]  # fmt: skip
            assert not lines, f"{path}: lines {lines}"


def words(node):
    """Return the names in a piece of source, with those after a dot."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def target_classes():
    """Return the classes of targets by name, with the file of each: `Samplable`, and all below."""
    classes = [
        (node, path) for path in SOURCES for node in parsed(path) if isinstance(node, ast.ClassDef)
    ]
    found, new = {}, {"Samplable"}
    while new:
        found |= {node.name: path for node, path in classes if node.name in new}
        below = {node.name for node, _ in classes for base in node.bases if words(base) & new}
        new = below - found.keys()
    return found


TARGET_CLASSES = target_classes()


def test_the_classes_of_targets_are_found():
    assert {"Samplable", "Target", "Standardized", "Extended"} <= TARGET_CLASSES.keys()


def test_isinstance_of_a_target_is_asked_in_targets_alone():
    """Elsewhere the target answers. Of the engine there is another `Density`."""
    assert [
        f"{path}:{node.lineno}: {name}"
        for path in SOURCES
        if not module_name(path).startswith("targets")
        for node in parsed(path)
        if isinstance(node, ast.Call) and words(node.func) & {"isinstance", "issubclass", "type"}
        for name in words(node) & TARGET_CLASSES.keys() - {"Density"}
        if TARGET_CLASSES[name] != path
    ] == []


def test_files_and_functions_stay_short():
    files = [p for top in (PACKAGE, ROOT / "tests", ROOT / "workflows") for p in top.rglob("*.py")]
    assert [str(p) for p in files if p.read_text().count("\n") > LONGEST_FILE] == []
    for path in SOURCES:
        for node in parsed(path):
            if isinstance(node, ast.FunctionDef):
                whole = ast.get_docstring(node) is None or len(node.body) == 1
                length = node.end_lineno - node.body[0 if whole else 1].lineno + 1
                assert length <= LONGEST_BODY, f"{path}: {node.name}: {length} lines"


def test_small_modules_have_several_importers_or_a_reason():
    """A splinter is read with the one file that imports it: it belongs there."""
    importers = {}
    for path in SOURCES:
        for _, own in own_imports(path):
            importers.setdefault(own, set()).add(path)
    splinters = [
        module_name(path)
        for path in SOURCES
        # a family keeps what it says apart from what is compiled
        if path.name not in ("__init__.py", "__main__.py", "findings.py")
        and path.parent.name != "report"  # a file for each picture
        and path.read_text().count("\n") < SMALL
        and len(importers.get(module_name(path), ())) == 1
        and "A file of its own" not in (ast.get_docstring(parsed(path)[0]) or "")
    ]
    assert splinters == []


def test_no_test_file_imports_another():
    """What is shared is in tests/helpers."""
    assert [
        f"{path}:{line}: {name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"(from|import) tests\S*\btest_", path.read_text())  # to parse few
        for line, name in imports(path)
        if re.match(r"tests\..*\btest_\w+\.", name)
    ] == []
