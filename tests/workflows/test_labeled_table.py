"""Tables of a user's own: what is read, and one sentence for each kind of table that is not."""

import gzip

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csr_array

from workflows.gad import digits, logistic, own_data
from workflows.gad.labeled_table import TableError, read_labeled_table
from workflows.learned import nice_logistic
from workflows.tempering import horseshoe

PEOPLE = "age;weight;ill\n31;70.5;0\n45;80;1\n52;64;1\n"


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a text and reads it as a table."""

    def read(text, name="people.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_labeled_table(path, **options)

    return read


@pytest.mark.parametrize("text", [
    PEOPLE, PEOPLE.replace(";", ","), PEOPLE.replace(";", "\t"), PEOPLE.replace(";", "  "),
    PEOPLE.split("\n", 1)[1], "\ufeff" + PEOPLE.replace("\n", "\r\n\r\n"),
    PEOPLE.replace("age", '"age"').replace("0\n", "0.0\n"),
])  # fmt: skip
def test_the_same_table_in_several_forms(table, text):
    read = table(text)
    assert read.inputs.tolist() == [[31, 70.5], [45, 80], [52, 64]]
    assert read.labels.tolist() == [0, 1, 1]
    assert read.left_out == 0


def test_labels_of_any_column_and_classes(table):
    for label in ("1", "kind"):
        read = table("kind,x,y\n7,1,2\n3,5,6\n", label=label)
        assert read.inputs.tolist() == [[1, 2], [5, 6]]
        assert (read.labels.tolist(), read.classes) == ([1, 0], ("7", "3"))
    read = table("1 0 five\n2 1 six\n3 2 two\n4 9 six\n", classes=["five", "six"])
    assert read.inputs.tolist() == [[1, 0], [2, 1], [4, 9]]
    assert read.labels.tolist() == [1, 0, 0]
    assert read.left_out == 1
    assert table("1,2,5.0\n3,4,6.0\n2,2,7.0\n", classes=["5", "6"]).labels.tolist() == [1, 0]


@pytest.mark.parametrize("classes", [("2", "1"), ("1", "-1"), ("1.5", "-2e3")])
def test_any_two_numbers_are_labels(table, classes):
    """The larger one becomes 1."""
    one, zero = classes
    read = table(f"7,1,{zero}\n3,5,{one}\n4,6,{one}\n")
    assert (read.labels.tolist(), read.classes) == ([0, 1, 1], classes)


def test_matlab_and_compressed_files(tmp_path, table):
    matrix = np.array([[1.0, 2.5, 2], [3, 4, 1], [5, 7, 2]])
    savemat(tmp_path / "heart.mat", {"X": matrix})
    read = read_labeled_table(tmp_path / "heart.mat")
    assert read.inputs.tolist() == matrix[:, :2].tolist()
    assert read.labels.tolist() == [1, 0, 1]
    assert table(gzip.compress(PEOPLE.encode()), "people.csv.gz").labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize(("facts", "text", "options"), [
    (["row 3", "'weight'", "''"], PEOPLE.replace("80", ""), {}),
    (["row 2", "'?'"], "1,2,0\n?,3,1\n", {}),
    (["column 2", "'NA'"], "1,2,0\n1,NA,1\n", {"header": False}),
    (["row 2"], "1,2,0\n1,3,\n4,4,1\n", {}), (["'-inf'"], "1,2,0\n1,-inf,1\n", {}),
    (["row 2", "'1e400'"], "1,2,0\n1,1e400,1\n", {}), (["'Infinity'"], "1,2,0\n1,Infinity,1\n", {}),
    (["no label in row 2"], "1,2,0\n1,3,1e999\n", {}),
    (["labels", "no, yes", "1 and which 0"], "1,2,no\n3,4,yes\n", {}),
    (["row 4", "'age'", "'old'"], PEOPLE.replace("52", "old"), {}),
    (["'31,5'", "with a point"], "a;y\n31,5;0\n30,1;1\n", {}),
    (["column 1", "'1,'"], "1, 2, 0\n3, 4, 1\n", {"delimiter": "space"}),
    (["'age'", "one value"], "age;w;y\n3;1;0\n3;2;1\n", {}),
    (["column 3"], "0,1,8\n1,2,8\n", {"label": "1"}), (["1 class, 1"], "1,2,1\n3,4,1\n", {}),
    (["3 classes", "5, 6, 7"], "1,2,5\n3,4,6\n2,3,7\n", {}),
    (["'5'", "'8'"], "1,2,5\n3,4,6\n", {"classes": ["5", "8"]}),
    (["'5'"], "1,2,5\n3,4,6\n", {"classes": ["5", "5.0"]}),
    (["one column", "comma", "'31;70.5;0'"], PEOPLE[15:], {"delimiter": ","}),
    (["row 3", "2 columns", "3"], "1,2,0\n3,4,1\n5,6\n", {}),
    (["'ill?'", "age, weight, ill"], PEOPLE, {"label": "ill?"}),
    (["'4'", "from 1 to 3"], PEOPLE, {"label": "4"}),
    (["no header"], "1,2,0\n3,4,1\n", {"label": "ill"}), (["one column"], "31\n45\n", {}),
    (["empty"], "\n\n", {}), (["empty"], "", {}), (["no rows"], "age,weight,ill\n", {}),
    (["cannot read"], b"\xff\xfe\x00", {}), (["no rows"], "a,b,c\n", {"header": True}),
])  # fmt: skip
def test_one_sentence_for_each_fault(table, facts, text, options):
    with pytest.raises(TableError) as caught:
        table(text, **options)
    for fact in facts:
        assert fact in str(caught.value)


def test_files_that_are_missing_or_of_another_kind(tmp_path):
    with pytest.raises(TableError, match="nowhere"):
        read_labeled_table(tmp_path / "nowhere.csv")
    (tmp_path / "text.mat").write_text("no matrix")
    with pytest.raises(TableError, match="MATLAB"):
        read_labeled_table(tmp_path / "text.mat")
    savemat(tmp_path / "other.mat", {"train0": np.ones((3, 4))})
    with pytest.raises(TableError, match="matrix X"):
        read_labeled_table(tmp_path / "other.mat")
    savemat(tmp_path / "sparse.mat", {"X": csr_array(np.eye(4))})
    with pytest.raises(TableError, match="matrix X"):
        read_labeled_table(tmp_path / "sparse.mat")


def test_pixels_are_scaled_and_may_be_constant(tmp_path):
    """Corners of digits are never inked; numbers beyond a byte are no pixels."""
    path = tmp_path / "digits.csv"
    path.write_text("0,255,5\n0,51,6\n")
    options = parsed(path, "--classes", "5", "6")
    read = own_data.read(options, images=True)
    assert read.inputs.tolist() == [[0, 1], [0, 0.2]]
    path.write_text("0,256,5\n0,51,6\n")
    with pytest.raises(SystemExit, match="0 to 255"):
        own_data.read(options, images=True)


def test_notes_on_scaled_and_equal_inputs(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE + "40;60;7\n")
    options = parsed(path, "--classes", "1", "0")
    said = own_data.note(own_data.read(options), path)
    for fact in ("3 rows, 2 inputs", "'1'", "standard deviation", "left out: 1"):
        assert fact in said
    path = tmp_path / "twice.csv"
    path.write_text("1,0,5,0,0\n2,7,6,7,1\n")
    options = parsed(path)
    said = own_data.note(own_data.read(options), path)
    assert "Inputs 2 and 4 are equal" in said
    assert "equal" not in own_data.note(own_data.read(options), path, images=True)
    path.write_text("1,0,5,0,0\n2,7,6,8,1\n")
    assert "equal" not in own_data.note(own_data.read(options), path)


@pytest.mark.parametrize("workflow", [logistic, digits, nice_logistic, horseshoe])
@pytest.mark.parametrize("text", ["", "a,b,c\n", "a\n1\n2\n", "1,?,0\n2,3,1\n", "1,2,1\n2,3,1\n"])
def test_experiments_end_with_one_sentence(tmp_path, monkeypatch, workflow, text):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    words = ["stanadapt paper", "--quick", "--out", str(tmp_path), "--data-file", str(path)]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit, match=r"^[^\n]*mine\.csv[^\n]*$"):
        workflow.main()


def test_the_horseshoe_has_all_inputs_and_holds_out_a_fifth(tmp_path):
    path, rng = tmp_path / "mine.csv", np.random.default_rng(1)
    table = np.column_stack([rng.normal(size=(40, 3)), np.arange(40) % 2])
    np.savetxt(path, table, delimiter=",", fmt="%.6f")
    content = horseshoe.own(parsed(path, "--classes", "1.000000", "0.000000"))
    assert (content["N"], content["N_test"], content["P"]) == (32, 8, 3)
    shown = np.sort(np.ravel(content["X"] + content["X_test"]))
    assert np.allclose(shown, np.sort(table[:, :3].ravel()), atol=1e-6)
    path.write_text("1,2,0\n2,3,1\n2,5,1\n")  # two to learn from; one of two inputs counts
    assert horseshoe.own(parsed(path))["scale_global"] == pytest.approx(2 / np.sqrt(2))


def parsed(path, *words):
    parser = own_data.argparse.ArgumentParser()
    own_data.add_options(parser)
    return parser.parse_args(["--data-file", str(path), *words])
