"""The rooms of the package: imports between them point down only, and packages have their doors."""

import ast
from graphlib import TopologicalSorter

import pytest

from tests.helpers.repository import PACKAGE, ROOT

# from top to bottom: a room imports from rooms below it, and from itself
ROOMS = [
    "cli",
    "sampling",
    "diagnostics",
    "targets",
    "results",
    "samplers",
    "kernels",
    "_numba",
    "errors",
]
DEPTH = {room: depth for depth, room in enumerate(ROOMS)}
# the modules, or folders, where a foreign package may be imported
DOORS = {
    "llvmlite": ["_numba.by_reference", "_numba.work_queue", "kernels.density"],
    "numba": ["_numba", "kernels", "samplers", "sampling"],
    "bridgestan": ["targets.stan.backends"],
    "stanli": ["targets.stan.backends", "sampling.stan_nuts.engines"],
    "cmdstanpy": ["sampling.stan_nuts.engines", "targets.stan.install_cmdstan"],
    "arviz": ["results"],
    "matplotlib": ["diagnostics.report.pictures.canvas", "diagnostics.rank_picture"],
    "jinja2": ["diagnostics.report.page"],
    "typer": ["cli"],
    "jax": ["sampling.learned.adversarial"],
    "optax": ["sampling.learned.adversarial"],
}
# what the file of a sampler may use, beside the rooms below
SHARED = {"pooled_warmup", "protocol", "registry", "setting_checks", "tempering_settings"}
NOT_SAMPLERS = SHARED | {"authoring", "breaches", "renamed"}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_name(path):
    """Return the name of a module within the package: "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """Yield (line, full name) of everything that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def own_imports(path):
    """Yield (line, module within the package) of what a file imports from the package."""
    modules = {module_name(source) for source in SOURCES}
    for line, name in imports(path):
        if name.split(".")[0] != "stanadapt":
            continue
        own = name.partition(".")[2]
        while own not in modules:
            own = own.rpartition(".")[0]
        yield line, own


def ids(path):
    return str(path.relative_to(PACKAGE))


def test_there_are_nine_rooms():
    entries = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("__")}
    assert entries - {"py", "stan_models"} == set(ROOMS)


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_imports_between_rooms_point_down(path):
    room = module_name(path).split(".")[0]
    if room in ("", "__main__"):
        return
    for line, own in own_imports(path):
        below = own.split(".")[0]
        assert below, f"line {line}: a room imports the package itself"
        assert below == room or DEPTH[below] > DEPTH[room], f"line {line}: {room} imports {below}"


def test_no_module_imports_itself_in_a_circle():
    graph = {}
    for path in SOURCES:
        name = module_name(path)
        # that a package is imported before its modules is no import of theirs
        graph[name] = {own for _, own in own_imports(path)} - {name}
    TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_foreign_packages_have_their_doors(path):
    own = module_name(path)
    for line, name in imports(path):
        doors = DOORS.get(name.split(".")[0])
        if doors is not None:
            assert any(own == door or own.startswith(f"{door}.") for door in doors), (
                f"line {line}: {name} in {own}"
            )


@pytest.mark.parametrize(
    "path",
    [p for p in (PACKAGE / "samplers").glob("[a-z]*.py") if p.stem not in NOT_SAMPLERS],
    ids=ids,
)
def test_a_sampler_imports_only_what_samplers_share(path):
    for line, own in own_imports(path):
        if own.split(".")[0] == "samplers":
            assert own.split(".")[1] in SHARED, f"line {line}: {own}"


def test_the_loop_names_no_sampler():
    names = {p.stem for p in (PACKAGE / "samplers").glob("[a-z]*.py")} - NOT_SAMPLERS
    source = (PACKAGE / "sampling" / "chain.py").read_text()
    words = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert not words & names


def test_files_stay_short():
    files = [p for top in (PACKAGE, ROOT / "tests", ROOT / "workflows") for p in top.rglob("*.py")]
    assert [str(p) for p in files if p.read_text().count("\n") > 400] == []


@pytest.mark.parametrize("path", SOURCES, ids=ids)
def test_functions_stay_short(path):
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            length = body[-1].end_lineno - body[0].lineno + 1
            assert length <= 40, f"{node.name}: {length} lines"


TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT / "tests")))
def test_no_test_file_imports_another(path):
    for line, name in imports(path):
        if name.startswith("tests."):
            assert not any(part.startswith("test_") for part in name.split(".")[:-1]), (
                f"line {line}: {name}: move what is shared to tests/helpers"
            )
