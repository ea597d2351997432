"""The rooms of the house: imports point one way, and each foreign package has its doors."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "stanadapt"
# a module may import from floors below its own, or from its own
FLOORS = [
    ["errors", "_jit", "lent"],
    [
        "density",
        "metropolis",
        "softmax",
        "factor",
        "models",
        "program",
        "plan",
        "toolchain",
        "status",
        "metrics",
        "kernels",
        "board",
    ],
    [
        "declarations",
        "adaptation",
        "hamiltonian",
        "speed_measure",
        "points",
        "cmdstan_install",
        "builds",
        "history",
        "proposal_scale",
        "kernel_proposal",
        "noise",
        "dual_averaging",
        "warmup_windows",
        "metric",
        "first_step",
        "nuts_tree",
        "reference_law",
        "stream",
        "tempered_path",
        "tempered_trajectory",
        "tempered_moves",
        "ladder",
        "tempering",
        "tempering_rounds",
        "pseudo_blocks",
        "tempering_report",
        "climb",
        "extended_density",
        "extended_handle",
        "extended_design",
    ],
    ["data", "protocol"],
    ["tempering_settings"],
    ["samplers", "backends"],
    ["target", "diagnosis"],
    ["provenance", "inits", "crew", "driver", "engines", "verification"],
    ["beginning", "run_told", "left_places", "mode_volumes"],
    ["progress", "results"],
    ["tempering_group", "same_target"],
    ["extended"],
    ["pseudo"],
    ["efficiency", "run", "reference", "missed", "weighted_summary"],
    ["compare", "modes_told"],
    ["modes"],
    ["cli"],
    ["__main__"],
    ["__init__"],
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
DOORS = {
    "llvmlite": {"density", "lent", "board"},
    "numba": {"_jit", "lent", "board", "stream", "density"}
    | {"extended_handle", "driver", "protocol"},
    "bridgestan": {"backends"},
    "stanli": {"backends", "engines"},
    "cmdstanpy": {"engines", "cmdstan_install"},
    "arviz": {"results"},
    "typer": {"cli"},
}


def imports(path):
    """Yield (line, full name) of everything that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def files():
    return sorted(PACKAGE.rglob("*.py"))


def room(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_arrows_point_down(path):
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] == "stanadapt" and path.name != "__init__.py":
            below = parts[1] if parts[1] in FLOOR else "__init__"
            assert FLOOR[below] <= FLOOR[room(path)], f"line {line}: {room(path)} imports {below}"


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_foreign_packages_have_their_doors(path):
    for line, name in imports(path):
        doors = DOORS.get(name.split(".")[0])
        assert doors is None or room(path) in doors, f"line {line}: {name}"


def test_a_sampler_imports_only_what_samplers_share():
    allowed = {"_jit", "density", "metropolis", "factor", "adaptation", "hamiltonian"}
    allowed |= {"speed_measure", "points", "protocol", "history", "kernels", "kernel_proposal"}
    allowed |= {"proposal_scale", "dual_averaging", "warmup_windows", "metric", "first_step"}
    allowed |= {
        "nuts_tree",
        "errors",
        "tempered_path",
        "tempered_moves",
        "ladder",
        "tempering",
    }
    allowed |= {"tempering_rounds", "tempering_report", "tempering_settings", "pseudo_blocks"}
    for path in (PACKAGE / "samplers").glob("[a-z]*.py"):
        used = {n.split(".")[1] for _, n in imports(path) if n.startswith("stanadapt.")}
        assert used <= allowed, path


def test_driver_names_no_sampler():
    names = {path.stem for path in (PACKAGE / "samplers").glob("[a-z]*.py")}
    words = {node.id for node in ast.walk(ast.parse((PACKAGE / "driver.py").read_text()))
             if isinstance(node, ast.Name)}  # fmt: skip
    assert not words & names


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_and_functions_stay_short(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            length = body[-1].end_lineno - body[0].lineno + 1
            assert length <= 40, f"{node.name}: {length} lines"
