"""What packagers and referees read agrees with what the package does."""

import re
import subprocess
import sys
import tomllib

import pytest

from tests.helpers.repository import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_citation_and_hooks_agree_with_the_project():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.M) == [PROJECT["version"]]
    assert re.findall(r"^license: (.+)$", citation, re.M) == [PROJECT["license"]]
    assert re.findall(r"^repository-code: (.+)$", citation, re.M) == [PROJECT["urls"]["Source"]]
    hooks = re.findall(r"entry: (.+)", (ROOT / ".pre-commit-config.yaml").read_text())
    lint = re.search(r"^lint:.*\n((?:\t.+\n)+)", MAKEFILE, re.M)[1]
    assert hooks == [line.replace("\t$(BIN)/", "") for line in lint.splitlines()]


def test_the_workflow_runs_the_pythons_of_the_classifiers_and_only_reads():
    found = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    ends = f'python: ["{found[0]}", "{found[-1]}"]'
    assert PROJECT["requires-python"] == f">={found[0]}"
    assert WORKFLOW.count(ends) == 2  # tests and pages
    assert re.findall(r"^permissions:\n((?:  .+\n)+)", WORKFLOW, re.M) == ["  contents: read\n"]
    assert WORKFLOW.count("permissions:") == 1


@pytest.mark.parametrize("page", [".github/workflows/ci.yml", "SECURITY.md", "CONTRIBUTING.md"])
def test_files_and_targets_that_a_page_names_exist(page):
    text = (ROOT / page).read_text()
    links = re.findall(r"\]\((?!https:)([^)#]+)\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    targets = re.findall(r"(?:`|run: )make ([\w-]+)", text)
    defined = {*re.findall(r"^([\w-]+):", MAKEFILE, re.M)}
    assert [target for target in targets if target not in defined] == []


def test_every_dependency_has_a_lower_bound_that_is_tried():
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "lower_bounds.py"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    tried = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["zarr"]]
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in tried]
    assert [line.split("==")[0] for line in done.stdout.splitlines()] == names


def test_an_old_pip_can_read_the_project_file():
    """Before 21.2, an array with values of several types, as TOML 1.0 has it, is a traceback."""
    arrays, pending = [], [PYPROJECT]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            arrays.append(value)
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
    assert len(arrays) > 10
    assert [array for array in arrays if len(set(map(type, array))) > 1] == []
