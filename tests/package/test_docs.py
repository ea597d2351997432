"""The pages of the documentation: all public names are there, and commands and examples work."""

import csv
import doctest
import json
import re
import shlex
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import stanadapt as sa
from stanadapt.errors import all_codes
from stanadapt.samplers import find, registered
from stanadapt.samplers.whitened import schedule, stage_parts
from tests.helpers.authoring_page import SAMPLER_OF_THE_PAGE
from tests.helpers.command_line import call
from tests.helpers.page_commands import (
    blocks,
    commands_of,
    repeated_verdicts,
    run,
    with_earlier,
    written_fits,
)
from tests.helpers.repository import PACKAGE, ROOT
from tests.helpers.seldom_parameters import soak_except
from tests.helpers.tiny_posteriordb import tiny
from workflows.data.digits import made_up

DOCS = ROOT / "docs"
GENERATED = ["api", "samplers", "messages", "writing_a_sampler", "densities", "reproduction"]
PAGES = {path.stem: path.read_text() for path in sorted(DOCS.glob("*.md"))}
CELL = r"^```\{code-cell\}\n(?::tags:[^\n]*\n)?(.*?)^```"
CELLS = {name: re.findall(CELL, page, flags=re.S | re.M) for name, page in PAGES.items()}
COMMANDS = [(name, command) for name, page in PAGES.items() for command in commands_of(page)]
# tests/package/test_readme.py runs them
OF_THE_README = set(commands_of((ROOT / "README.md").read_text()))
# reasons not to run a command here, by its beginning
NOT_RUN = {
    "make ": "the script of all checks runs it",
    "stanadapt bench posterior-grid": "tests/workflows runs it on a small database",
    "stanadapt bench ": "takes minutes; the same script runs it with --quick",
}
# pages with Python outside cells, and the reason not to run it
FRAGMENTS = {
    "runs": "test_examples_of_runs_are_scripts runs them",
    "api": "examples of docstrings, which tests/package/test_public_names.py runs",
    "writing_a_sampler": "tests of the engine run the sampler of the page",
}
# fits that a page shows because they are not fine, by page and name
UNUSABLE = {
    "reading_the_table": {
        "short": "too short", "walk": "do not use", "funnel_nuts": "suspect", "one_mode": "suspect",
    },
    "many_modes": {"default": "do not use"},
    "is_it_right": {
        "short": "do not use", "funnel": "do not use", "apart": "do not use", "biased": "not exact",
    },
    "densities": {"fit": "not exact"},
    "calibration": {"right": "calibrated", "wrong": "not calibrated"},
}  # fmt: skip
# no C++ compiler, as in the build of the pages; figures are not shown
ENVIRONMENT = {"STANADAPT_BACKEND": "stanli", "MPLBACKEND": "Agg"}
PRINT_VERDICTS = """
import json as _json
_verdicts = {}
for _name, _value in list(globals().items()):
    _of_fit = getattr(_value, "attrs", {}).get("verdict")
    _of_study = getattr(_value, "verdict", None)
    _verdicts |= {_name: v for v in (_of_fit, _of_study) if isinstance(v, str)}
print("VERDICTS", _json.dumps(_verdicts))
"""


@pytest.fixture
def reference_text(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import reference_text

    return reference_text


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "stan_models").symlink_to(ROOT / "stan_models")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    tiny(tmp_path / "posteriordb", name="eight_schools-eight_schools_noncentered")
    write_tables_of_a_user(tmp_path)
    return tmp_path


def write_tables_of_a_user(folder):
    """Write the tables that commands of the gallery read."""
    heart = json.loads((ROOT / "stan_models/logistic/heart.json").read_text())
    named = pd.DataFrame(heart["X"]).add_prefix("x")
    named["disease"] = np.where(heart["y"], "yes", "no")
    named.to_csv(folder / "heart.csv", index=False)
    digits = made_up(40, seed=1)
    pixels = (255 * np.array(digits["X"])).round().astype(int)
    labels = np.where(digits["y"], 5, 6)[:, None]
    pd.DataFrame(np.hstack([labels, pixels])).to_csv(
        folder / "mnist.csv.gz", index=False, header=False
    )


def test_the_table_of_words_is_the_one_that_messages_use(reference_text):
    page = (DOCS / "coming_from.md").read_text()
    assert reference_text.words_of_others() in page, reference_text.words_of_others()


@pytest.mark.parametrize("page", GENERATED)
def test_generated_pages_are_up_to_date(reference_text, page):
    assert [*reference_text.PAGES] == GENERATED
    current = reference_text.rendered(page) == PAGES[page]
    assert current, "run: python docs/reference_text.py"


def test_every_surprise_names_its_source_and_tests_that_exist():
    table = re.search(r"^\| version .*?\n\n", PAGES["formats_and_peers"], re.S | re.M)[0]
    for row in table.strip().splitlines()[2:]:
        version, _, _, source, tests = (cell.strip() for cell in row[1:-1].split(" | "))
        scripts = re.findall(r"`(findings/.+)`", source)
        assert scripts or "its test" in source or re.search(r"\]\(https://.+\)", source), row
        for script in scripts:  # in which the library has the version of the row
            library, number = version.lower().split()
            assert re.search(f"{library}==?{number}", (ROOT / script).read_text()), row
        for path, name in re.findall(r"`(.+?)::(.+?)`", tests):
            assert f"\ndef {name}(" in (ROOT / path).read_text(), row
        assert "::" in tests, row


def test_every_public_name_is_in_the_reference(reference_text, monkeypatch):
    names = re.findall(r"^### (\w+)$|^`stanadapt\.(\w+)`", PAGES["api"], re.M)
    by_module = {name for each in reference_text.BY_MODULE.values() for name in each}
    assert sorted({one or other for one, other in names} - by_module) == sorted(sa.__all__)
    monkeypatch.setattr(sa, "find", find, raising=False)  # a new name needs no new page
    monkeypatch.setattr(sa, "__all__", [*sa.__all__, "find"])
    assert "### find\n\n```python\nstanadapt.find(" in reference_text.public_names()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_examples_of_names_in_modules_run(reference_text, monkeypatch, tmp_path):
    """Those of the package itself: `test_public_names`."""
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for module, names in reference_text.BY_MODULE.items():
        for name in names:
            value = getattr(import_module(module), name)
            (test,) = doctest.DocTestFinder(recurse=False).find(value, name)
            assert test.examples, name
            runner.run(test)
    assert runner.failures == 0


def test_every_sampler_is_in_the_reference_with_its_settings():
    titles = re.findall(r"^## (\w+)$", PAGES["samplers"], re.M)
    assert titles == list(registered())
    sections = dict(
        zip(titles, re.split(r"^## \w+$", PAGES["samplers"], flags=re.M)[1:], strict=True)
    )
    for name in registered():
        rows = re.findall(r"^\| `(\w+)` \| `(.*?)`.* \| .+ \| (.+) \|$", sections[name], re.M)
        shown = {setting: default for setting, default, meaning in rows if len(meaning) > 10}
        _, defaults = find(name)
        assert list(shown) == list(defaults._fields)
        written = {n: getattr(v, "name", v) for n, v in defaults._asdict().items()}
        assert shown == {n: str(v) for n, v in written.items()}


def test_every_sampler_has_a_use_and_a_source():
    """In the first cell of a row, and before the colon of an entry."""
    for page, pattern in {
        "which_sampler": r"^\| ((?:`\w+`, )*`\w+`) \|(?=[^|]*\|$)",
        "sources": r"((?:`\w+`, )*`\w+`):",
    }.items():
        entries = re.findall(r"\w+", " ".join(re.findall(pattern, PAGES[page], re.M)))
        assert sorted(entries) == sorted(registered()), page


def test_every_code_is_on_the_page_of_messages_with_meaning_and_cure(reference_text):
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.*) \|$", PAGES["messages"], re.M)
    expected = {(code, code.meaning, code.cure) for code in all_codes().values()}
    assert {tuple(re.sub(r"\\(.)", r"\1", cell) for cell in row) for row in rows} == expected
    titles = re.findall(r"^## (.+)$", PAGES["messages"], re.M)
    assert titles == [
        title
        for kind, title in reference_text.KINDS.items()
        if kind in {code.kind for code in all_codes().values()}
    ]


def test_every_construct_is_on_the_page_of_densities():
    with (DOCS / "constructs.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    table = PAGES["densities"].split("\n## Constructs")[1]
    cells = re.findall(r"^\| (.+) \| (.*) \| (\S+) \| (\S+) \| (\S+) \|$", table, re.M)
    shown = [tuple(re.sub(r"\\(.)|`", r"\1", cell) for cell in row) for row in cells]
    expected = [(r["construct"], r["embedded"], r["2.27"], r["2.35"]) for r in rows]
    plain = [(row[0].replace("`", ""), *row[1:]) for row in expected]
    assert [(row[0], *row[2:]) for row in shown] == plain
    for (_, releases, *_), row in zip(shown, rows, strict=True):
        assert re.findall(r"[\d.]+", releases) == [r for r in (row["since"], row["until"]) if r]


def test_docstrings_are_written_as_markdown(reference_text):
    text = reference_text.as_markdown(
        "A <x>* `<y>` here:\n\n    |x| + 1\n\n    |y|\n\nand\n---\n|z|", "text"
    )
    assert text == "A \\<x\\>\\* `<y>` here:\n\n```text\n|x| + 1\n\n|y|\n```\n\n**and**\n\n|z|"
    text = reference_text.as_markdown("Returns\n-------\nx, y : int\n    Numbers.\n\n    More.")
    assert text == "**Returns**\n\n- **x, y** (int)<br>\n  Numbers.\n\n  More."


def test_the_page_for_authors_is_the_example():
    shown = {line.strip() for line in PAGES["writing_a_sampler"].splitlines()}
    lines = SAMPLER_OF_THE_PAGE.replace('"""', "'''").splitlines()
    assert {line.strip() for line in lines} <= shown


def test_samplers_workflows_and_experiments_on_pages_exist():
    pages = PAGES["which_sampler"] + (DOCS / "_static" / "which_sampler.svg").read_text()
    words = set(re.findall(r"(?:`|sampler=\"|--sampler |>)(\w+)", pages))
    assert {"auto", "kameleon", "parallel_tempering"} <= words
    looks_like_one = {
        w for w in words if re.fullmatch(r"(gad|pooled|pseudo|parallel|whitened)_\w+", w)
    }
    assert looks_like_one <= set(registered())
    listed = re.findall(r"python -m (workflows[.\w]+)", (ROOT / "workflows/README.md").read_text())
    assert "{include} ../workflows/README.md" in PAGES["gallery"]
    assert len(listed) > 10
    assert all((ROOT / f"{name.replace('.', '/')}.py").is_file() for name in listed)
    text = "".join(PAGES.values()) + (ROOT / "README.md").read_text()
    assert "python -m workflows.benchmarks" not in re.sub("Made by.*", "", text)
    for command, listed in (("paper", call("paper")), ("bench", call("bench"))):
        named = set(re.findall(rf"stanadapt {command} ([a-z][\w-]+)", text))
        assert len(named) > 2
        assert all(name in listed for name in named), named


def is_run(command):
    return command.startswith("stanadapt ") and not command.startswith(tuple(NOT_RUN))


def test_commands_and_tests_that_scripts_name_are_run():
    script = (ROOT / ".ci" / "run").read_text()
    others = [c for _, c in COMMANDS if not is_run(c)]
    assert others
    assert all(c.startswith(tuple(NOT_RUN)) for c in others), others
    assert all(c in script.splitlines() for c in others if c.startswith("make "))
    assert "workflows.benchmarks.{against_nuts,against_peers" in script
    scripts = [ROOT / "Makefile", *(ROOT / ".ci").iterdir()]
    named = re.findall(r"\btests/[\w/*]+\.py\b", "".join(path.read_text() for path in scripts))
    assert len(named) > 5
    assert [name for name in named if not list(ROOT.glob(name))] == []
    assert {name for name, page in PAGES.items() if blocks(page, "python")} == set(FRAGMENTS)


def test_files_on_pages_exist():
    """Tests that the page on runs names, and the map of the package."""
    tests = re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py)`", PAGES["runs"])
    assert len(tests) > 20
    for name in tests:
        path = name if name.startswith("tests/") else f"tests/runs/kept/{name}"
        assert (ROOT / path).is_file(), path
    rooms = "cli|studies|runs|samplers|diagnostics|targets|results|engine|errors"
    files = re.findall(rf"(?<![\w/])((?:{rooms})/[\w/]+\.py)\b", PAGES["inside"])
    assert len(files) > 20
    assert [name for name in files if not (PACKAGE / name).is_file()] == []


def test_the_walk_of_a_default_fit_names_its_stages_and_files():
    walk = PAGES["inside"].split("\n## A default fit")[1].split("\n## ")[0]
    stages = set(re.findall(r"\b[A-Z]{3,}(?:_[A-Z]+)*\b", walk)) - {"NUTS"}
    assert {getattr(stage_parts, name) for name in stages} == set(schedule.STAGES)
    files = {path.stem for path in (PACKAGE / "samplers" / "whitened").glob("*.py")} - {"__init__"}
    assert files <= set(re.findall(r"\w+", walk))


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({n for n, c in COMMANDS if c.startswith("stanadapt ")}))
def test_commands(folder, page, monkeypatch):
    """Commands in the order of the page; those of the README only if another reads their files.

    Those of the README run in processes of their own, as a user's do; here each start would take
    longer than most commands.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    commands = [c for name, c in COMMANDS if name == page and is_run(c)]
    others = [c for c in commands if c not in OF_THE_README]
    needed = {each for command in others for each in with_earlier(command, commands)}
    for command in (c for c in commands if c in needed):
        call(*shlex.split(command)[1:])
        verdicts = {p.stem: sa.load(p).attrs["verdict"] for p in written_fits(command, folder)}
        assert set(verdicts.values()) <= {"fine"}, verdicts
        assert repeated_verdicts(command, folder) <= {"fine"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 2])
def test_examples_of_runs_are_scripts(folder, number):
    """All but that for SLURM; of the Dask cluster, the address is that of a local one."""
    script, scheduler = blocks(PAGES["runs"], "python")[number], "tcp://one:8786"
    if scheduler in script:
        from distributed import LocalCluster

        with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
            (folder / "page.py").write_text(script.replace(scheduler, cluster.scheduler_address))
            run([sys.executable, "page.py"], folder, **ENVIRONMENT)
    else:
        (folder / "page.py").write_text(script)
        run([sys.executable, "page.py"], folder, **ENVIRONMENT)


@pytest.mark.slow
def test_command_of_the_page_for_authors(folder):
    (command,) = re.findall(r"^(stanadapt check-sampler .*)$", PAGES["writing_a_sampler"], re.M)
    (folder / "barker.py").write_text(SAMPLER_OF_THE_PAGE)
    script = [sys.executable, "-m", "stanadapt"]
    printed = run([*script, *shlex.split(command)[1:]], folder)
    assert "8 of 8 checks passed" in printed
    assert "FAILED" not in printed
    own = ["--sampler-file", "barker.py", "--seed", "1", "--quiet"]
    printed = run(
        [*script, "compare", "neal", "-s", "barker,rwm", "--stan-nuts", "none", *own], folder
    )
    assert "barker" in printed
    assert '"barker"' in run([*script, "samplers", "barker", *own[:2], "--json"], folder)


# `make docs` executes all pages on this Python; those of six others are tested on the newest one
@pytest.mark.slow
@pytest.mark.parametrize(
    "page", soak_except({"many_modes"}, [name for name, cells in CELLS.items() if cells])
)
def test_cells_end_in_usable_fits(folder, page):
    (folder / "page.py").write_text("\n".join(CELLS[page]) + PRINT_VERDICTS)
    printed = run([sys.executable, "page.py"], folder, **ENVIRONMENT)
    verdicts = json.loads(re.search(r"^VERDICTS (.*)$", printed, re.M)[1])
    assert verdicts
    expected = dict.fromkeys(verdicts, "fine") | UNUSABLE.get(page, {})
    assert verdicts == expected
