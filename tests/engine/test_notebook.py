"""Progress in a notebook: one output per cell, rewritten in place, that ends as one line."""

from types import SimpleNamespace

import pytest

from stanadapt.engine import console
from stanadapt.engine.notebook import CellBars, CellCount, CellOutput
from stanadapt.studies.tasks import each_result


class Cells:
    """A stand-in for IPython: the outputs of its cells, each a list of all its states."""

    def __init__(self):
        self.number, self.outputs = 1, []

    def show(self, bundle, raw, display_id):
        assert raw
        assert display_id
        states = [bundle["text/plain"]]
        self.outputs.append(states)
        return SimpleNamespace(update=lambda new, raw: states.append(new["text/plain"]))


@pytest.fixture
def cells():
    return Cells()


@pytest.fixture
def output(cells):
    return CellOutput(cells.show, lambda: cells.number)


def chains(done):
    return [SimpleNamespace(n_done=done, n_total=100) for _ in range(2)]


def test_a_call_has_one_output_that_ends_as_one_line(cells, output):
    now = [0.0]
    output.write("Compiling")
    output.end()
    with CellBars(output, lambda chain, task: "sampling", clock=lambda: now[0]) as bars:
        for done in range(101):
            now[0] += 0.05
            bars.update(chains(done))
    output.write("Building the result")
    output.end()
    (states,) = cells.outputs
    assert states[:2] == ["Compiling", ""]
    assert "chain 1 ████" in states[10]
    assert states[10].count("\n") == 1
    assert len(states) < 2 + 100 * 0.05 / 0.25 + 5
    assert states[-1] == states[-3] == "2 chains, 200 iterations, 5.0 s"


def test_tasks_of_a_study_have_one_output_too(cells, output, monkeypatch, capsys):
    monkeypatch.setattr(console, "cell_output", lambda: output)
    assert list(each_result(abs, [(-1,), (-2,)], None, "sampling", True)) == [1, 2]
    (states,) = cells.outputs
    assert states[0].endswith("░ 0 of 2")
    assert "█ 2 of 2" in states[2]
    (last,) = states[3:]
    assert last.startswith("sampling: 2 of 2, ")
    assert capsys.readouterr() == ("", "")


def test_a_bar_keeps_the_name_of_its_task_and_its_last_line_without_tasks_too(cells, output):
    with CellCount(output, "", 2) as count:
        count.advance(0, "second")
        count.advance()
    assert cells.outputs[0][2].startswith("second █")
    with CellCount(output, "none", 0):
        pass
    output.write("a text of a later call")
    output.end()
    assert cells.outputs[-1][-1].startswith("none: 0 of 0, ")


def test_each_cell_has_its_own(cells, output):
    output.write("one", last=True)
    cells.number = 2
    output.write("two")
    output.end()
    assert cells.outputs == [["one"], ["two", ""]]


def test_nothing_is_shown_for_steps_that_say_nothing(cells, output):
    output.end()
    with CellBars(output, str):
        pass
    assert cells.outputs == []


CELL = """
import stanadapt as sa
target = sa.Target("parameters { real x; } model { x ~ normal(0, 1); }", backend="stanli")
fit = sa.sample(target, "nuts", seed=1)
fit = sa.sample(target, "nuts", seed=1)
"""


@pytest.mark.slow
def test_a_saved_notebook_holds_one_line_and_no_progress():
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    from nbformat.v4 import new_code_cell, new_notebook

    notebook = new_notebook(cells=[new_code_cell(CELL)])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    (shown,) = notebook.cells[0].outputs
    assert shown.output_type == "display_data"
    assert shown.data["text/plain"].startswith("4 chains, ")
