"""Reading programs, resolving includes, finding blocks and branches, computing sizes."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import stanli

from stanadapt.targets.stan import control_flow, declarations, program, syntax
from tests.helpers.codes import raises, raises_in

MODEL = "parameters { real mu; }\nmodel { mu ~ normal(0, 1); }\n"


def refuse(code, facts, *args):
    """Expect an error with this code and these facts from `program.read`; return its message."""
    with raises(code, *facts) as caught:
        program.read(*args)
    return caught.value.message


def refuse_file(path, *facts):
    """Expect an error of the stage "files", with a code that another room declares."""
    with raises_in("files", *facts):
        program.read(path)


def write(folder, **files):
    """Write files `name.stan` in `folder`; two underscores in a name mean a subfolder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.stan"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_file_and_its_text_are_the_same_program(tmp_path):
    path = write(tmp_path, normal=MODEL) / "normal.stan"
    from_path, from_str, from_code = map(program.read, (path, str(path), MODEL))
    assert from_path == from_str
    assert from_path == ("normal", MODEL, path.resolve(), ())
    assert from_code == ("program", MODEL, None, ())
    assert from_path.hash == from_code.hash == sha256(MODEL.encode()).hexdigest()[:16]
    assert program.read(MODEL + " ").hash != from_code.hash
    assert program.read(path, name="mine").name == "mine"


def test_code_files_and_homes_are_read(tmp_path, monkeypatch):
    assert program.read("model { }").code == "model { }"
    assert program.read("// nothing but a model\nmodel\n").path is None
    path = tmp_path / "normal.stan"
    path.write_bytes(b"\xef\xbb\xbf" + MODEL.replace("\n", "\r\n").encode())
    assert program.read(path).code == MODEL
    monkeypatch.setenv("HOME", str(write(tmp_path, normal=MODEL)))
    assert program.read("~/normal.stan").path == (tmp_path / "normal.stan").resolve()


def test_files_that_cannot_be_read_are_named(tmp_path):
    missing = tmp_path / "nowhere.stan"
    refuse_file(missing, missing)
    folder = tmp_path / "folder.stan"
    folder.mkdir()
    refuse_file(folder, folder, "folder")
    refuse_file(tmp_path, tmp_path, "folder")
    latin = tmp_path / "latin.stan"
    latin.write_bytes("model {\n // caf\xe9\n}".encode("latin-1"))
    refuse_file(latin, latin, "line 2", "0xe9")
    refuse_file("x" * 5000 + ".stan")
    refuse_file("a\0b.stan")
    refuse("not_a_stan_file", [".stan", "'data.json'"], "data.json")
    refuse("not_a_stan_file", ["NoneType"], None)


@pytest.mark.parametrize("text", ["", "  ", "\n\n", "// a plan\n", "/* more\n than that */\n"])
def test_an_empty_program_is_refused(tmp_path, text):
    refuse("empty_program", [], text)
    path = write(tmp_path, empty=text) / "empty.stan"
    refuse("empty_program", [path], path)


@pytest.mark.parametrize(
    "directive",
    [
        "#include square.stan",
        "#include <square.stan>",
        '#include "square.stan"',
        "#include square.stan // of a number",
        "#include\n  square.stan",
    ],
)
@pytest.mark.parametrize("ending", ["", "\n", " // no newline after this"])
def test_every_form_of_include_is_resolved(tmp_path, directive, ending):
    body = "real square_of(real x) { return x * x; }"
    write(tmp_path, square=body + ending, main=f"functions {{\n{directive}\n}}\n{MODEL}")
    code = program.read(tmp_path / "main.stan").code
    assert body in syntax.block(code, "functions") + ending
    assert "#include" not in code
    assert code.endswith("}\n" + MODEL)


@pytest.mark.parametrize(
    "hidden",
    ["// #include gone.stan", "/* \n#include gone.stan\n*/", 'print("#include gone.stan");'],
)
def test_includes_in_comments_and_strings_are_ignored(hidden):
    code = f"model {{\n{hidden}\n}}"
    assert program.read(code).code == code


def test_includes_nest_and_search_in_order(tmp_path, monkeypatch):
    write(
        tmp_path,
        main__main="functions {\n#include sub/one.stan\n}\nmodel { }",
        main__sub__one="// one\n#include two.stan\n#include three.stan\n",
        main__sub__two="// two of the including file's folder\n",
        main__two="// two of the program's folder\n",
        main__three="// three of the program's folder\n",
        first__two="// two of the first folder\n",
        second__two="// two of the second folder\n",
        here__two="// two of the current folder\n",
    )
    main, first, second = tmp_path / "main/main.stan", tmp_path / "first", tmp_path / "second"
    plain = program.read(main).code
    assert [line for line in plain.split("\n") if line.startswith("//")] == [
        "// one",
        "// two of the including file's folder",
        "// three of the program's folder",
    ]
    assert "two of the first folder" in program.read(main, [first, second]).code
    assert "two of the second folder" in program.read(main, (str(second), first)).code
    single = program.read(main, second)
    assert "two of the second folder" in single.code
    assert single.include_paths == (second,)
    monkeypatch.chdir(tmp_path / "here")
    text = "functions {\n#include two.stan\n}\nmodel { }"
    assert "two of the current folder" in program.read(text).code
    assert "two of the first folder" in program.read(text, first).code


def test_files_included_twice_and_bad_ones(tmp_path):
    write(tmp_path, a="target += 1;\n", main="model {\n#include a.stan\n#include a.stan\n}")
    assert program.read(tmp_path / "main.stan").code.count("target += 1;") == 2
    (tmp_path / "bad.stan").write_bytes(b"\xff")
    (tmp_path / "main.stan").write_text("#include bad.stan\nmodel { }")
    refuse_file(tmp_path / "main.stan", tmp_path / "bad.stan")
    refuse("invalid_include_path", [tmp_path / "gone"], MODEL, [tmp_path, tmp_path / "gone"])


def test_the_error_for_a_missing_include_names_the_including_file_and_the_search_path(
    tmp_path, monkeypatch
):
    write(tmp_path, main="#include part.stan\nmodel { }", part="#include lost.stan\n")
    extra = tmp_path / "extra"
    extra.mkdir()
    facts = [tmp_path / "part.stan", "'lost.stan'", f"{extra}, {tmp_path}.", "include_paths"]
    refuse("include_missing", facts, tmp_path / "main.stan", extra)
    monkeypatch.chdir(extra)
    refuse("include_missing", ["'lost.stan'", f" {extra}."], "#include lost.stan\nmodel { }")


@pytest.mark.parametrize(
    ("files", "cycle"),
    [
        ({"main": "#include main.stan\n"}, "main.stan -> main.stan"),
        (
            {"main": "#include a.stan\n", "a": "#include b.stan\n", "b": "#include a.stan\n"},
            "a.stan -> b.stan -> a.stan",
        ),
    ],
)
def test_circular_includes_are_refused(tmp_path, files, cycle):
    write(tmp_path, **files)
    refuse("circular_includes", [f" {cycle}."], tmp_path / "main.stan")


@pytest.mark.parametrize(
    ("code", "stripped"),
    [
        ("a // b\nc", "a     \nc"),
        ("a /* b\n c */ d", "a     \n      d"),
        ("a /* // */ b", "a          b"),
        ("// /*\nb", "     \nb"),
        ('print("a // b", 1) // "', 'print("      ", 1)     '),
        ('"/*" a "*/"', '"  " a "  "'),
        ('print("open\nif', 'print("    \nif'),
        ("a /* open\nif", "a        \n  "),
        ("# old comment, don't if\nb", "                       \nb"),
        ("a '", "a '"),
    ],
)
def test_strip_blanks_comments_and_strings_in_place(code, stripped):
    assert syntax.strip(code) == stripped
    assert len(stripped) == len(code)


BLOCKS = """\
functions { real f(data real data_x) { if (data_x > 0) { return 1; } return 2; } }
// data { wrong }
data { int N; /* } */ }
transformed   data{ real parameters_ = N; }
parameters
{ real mu; }
transformed parameters { real nu = mu; { real model_; } }
model { print("generated quantities { }"); { mu ~ normal(0, 1); } }
"""


@pytest.mark.parametrize(("name", "body"), [
    ("functions", "real f(data real data_x) { if (data_x > 0) { return 1; } return 2; }"),
    ("data", "int N;"), ("transformed data", "real parameters_ = N;"), ("parameters", "real mu;"),
    ("transformed parameters", "real nu = mu; { real model_; }"),
    ("model", 'print("                        "); { mu ~ normal(0, 1); }'),
    ("generated quantities", ""),
])  # fmt: skip
def test_block_returns_each_body(name, body):
    assert syntax.block(BLOCKS, name).strip() == body


def test_blocks_and_lines_of_the_resolved_program(tmp_path):
    with pytest.raises(ValueError, match=r"transformed data, .* got 'transformed_data'"):
        syntax.block(BLOCKS, "transformed_data")
    assert syntax.block("data { int N;", "data") == " int N;"  # unclosed: Stan reports it
    write(tmp_path, f="real f(real x) {\n  return x > 0 ? x : 0;\n}\n")
    write(tmp_path, main="functions {\n#include f.stan\n}\nmodel { target += f(1); }")
    code = program.read(Path(tmp_path / "main.stan")).code
    assert control_flow.branches(code) == [(3, "return x > 0 ? x : 0;")]


IN_BLOCK = {
    "functions": "functions {{ real f(real mu) {{\n    {} // so\n}} }} model {{ target += f(1); }}",
    "transformed parameters": "transformed parameters {{ real mu;\n    {} // so\n}}",
    "model": "parameters {{ real mu; }} model {{\n    {} // so\n}}",
}


@pytest.mark.parametrize("line", [
    "if (mu > 0) target += 1;", "if(mu > 0) target += 1;", "else if (mu > 0) target += 1;",
    "while (mu < 3) target += 1;", "target += mu > 0 ? 1 : 2;", "while (mu > 0) break;",
    "target += 1 + f(mu ? 1 : N);", "if (is_nan(mu)) { }", "if (N && mu) { }", "if (g_rng(N)) { }",
    "if (target() > N) { }", "if (g_lp(N)) { }", "if (x[size(mu), 1] > size(mu) * mu) { }",
    "for (mu in x) if (mu > 1) { }", "int k = !mu; for (n in 1:k) if (n > 1) { }", "if (k > 1) { }",
])  # fmt: skip
@pytest.mark.parametrize("where", IN_BLOCK)
def test_branches_finds_every_kind_of_branch(line, where):
    code = f"data {{ int N; matrix[N, N] x; }}\n/* \n */ {IN_BLOCK[where].format(line)}\n"
    assert control_flow.branches(code) == [(4, f"{line} // so")]


@pytest.mark.parametrize(
    "line",
    [
        "// if (mu > 0)",
        "/* while (1) ? */",
        "# if old",
        'print("if so?");',
        "real iffy = if_x + x_if + meanwhile;",
        "real break_2 = discontinue;",
        "y ~ normal(mu, 1) T[0, 2];",
        "vector<offset=mu, multiplier=2>[N] x;",
        "for (n in 1:N) target += 1;",
        "for (v in vs) target += v;",
        "real a = mu';",
    ],
)
def test_branches_ignores_everything_else(line):
    assert control_flow.branches(f"model {{\n{line}\n}}") == []


CLEAN = """
functions {
  int first(array[] int y) { for (k in 1:size(y)) if (y[k]) return k; return 0; }
  real early(real x) { if (x > 0) return 1; return 2; }
  real growth(real t, int k, vector v) { if (!k && rows(v) > 2) return t; return k > 2 ? t : 1; }
  real own_lpdf(real t, int k) { return k == 0 ? -t : -2 * t; }
}
data { int N; int id; vector[N > 1 ? N : 1] x; array[N] int y; }
transformed data { real m = early(N); if (m > 1) { m = 1; } while (m < 3) { m += 1; } }
parameters { real a; vector<lower=0>[id == 1 ? 2 : N] b; }
transformed parameters { real c = id == 1 ? growth(a, id, b) : a; if (x[1] > m) c += 1; }
model {
  int n = 0;
  for (i in first(y):N) { if (y[i] > 0 && x[i] <= m) { n += 1; continue; } a ~ own(n); }
  while (n > 0) { n -= 1; if (n == 2) break; }
}
generated quantities { for (i in 1:N) { real r = y[i] ? normal_rng(0, 1) : a; } ROOM }
"""


@pytest.mark.parametrize(("old", "new", "line"), [
    ("ROOM", "", 0), ("ROOM", "int k = poisson_rng(a); real e = own_lpdf(a | 1);", 0),
    ("ROOM", "int k = poisson_rng(a); if (k > 2) { }", 16),
    ("ROOM", "int k = poisson_rng(a); real e = own_lpdf(a | k);", 5), ("int k) {", "real k) {", 5),
    ("ROOM", "real e = early(2);", 3), ("int n = 0;", "int n = a > 0;", 14),
    ("int n = 0;", "int n = 0; int k = 1 - is_inf(a);", 14), ("x[i] <= m", "b[i] <= m", 13),
    ("a ~ own(n)", "target += own_lpdf(a | a > 2 || n)", 5),
])  # fmt: skip
def test_conditions_of_data_and_integers_are_no_branches_on_parameters(old, new, line):
    """Nor are functions that only transformed data call; unless integers come from parameters."""
    code = CLEAN.strip("\n").replace(old, new)
    found = [number for number, _ in control_flow.branches(code)]
    assert (line in found) if line else (found == [])


@pytest.mark.parametrize("line", [
    "for (x in a[1:3]) if (x > 0) z += x;",
    "for (x in 1:3) z += x; for (x in a) if (x > 0) z += x;",
    "for (x in 1:3) z += x; { real x = z; if (x > 0) z += x; }",
    "{ int k = 3; } { real x = exp(z), k = z; if (k > 0) z += x; }",
    "z += f(z);", "z += g(z);",
])  # fmt: skip
def test_names_of_integers_and_of_functions_are_not_mistaken(line):
    code = """functions {
  real h(real x); tuple(real, int) g(real x) { return x > 0 ? (x, 1) : (h(x), 2); }
  real h(real x); real f(real x) { return x > 0 ? h(x) : x; } real h(real x) { return x; }
} parameters { vector[4] a; } model { int i, j = 2; real z = a[1]; if (j > 1) z += 1; ROOM }"""
    assert control_flow.branches(code.replace("ROOM", "")) == []
    assert len(control_flow.branches(code.replace("ROOM", line))) == 1


SCOPE = """int N; int Z; array[3] int s; array[2, 4] int S; matrix[5, 6] X; vector[7] v;
row_vector[8] w;"""
VALUES = {
    "N": 3, "Z": -7, "s": [4, 1, 2], "S": [[1, 2, 3, 4], [5, 6, 7, 8]],
    "X": [[0.5] * 6] * 5, "v": [0.5] * 7, "w": [0.5] * 8,
}  # fmt: skip
EXPRESSIONS = {
    "N": 3, "N+1": 4, "2 * N - 1": 5, "N*(N-1)/2": 3, "7/2": 3, "7%/%2": 3, "Z/2 + 9": 6,
    "Z%/%2 + 9": 6, "Z % 2 + 9": 8, "7 % 4": 3, "1+N*5%/%2": 7, "-N + 9": 6,
    "9 - 3 - 2": 4, "- - N": 3,
    "!N + 2": 2, "s[1]": 4, "s[s[2] + 1]": 1, "S[2, 3]": 7, "S[2][3]": 7, "max(S[1])": 4,
    "sum(s)": 7, "max(s)": 4, "min(s)": 1, "max(N, 9)": 9, "min(N, 9)": 3, "size(s)": 3,
    "size(S)": 2, "size(X)": 30, "size(v)": 7, "num_elements(S)": 8, "num_elements(X)": 30,
    "rows(X)": 5, "cols(X)": 6, "rows(v)": 7, "cols(v)": 1, "rows(w)": 1, "cols(w)": 8,
    "N > 2 ? N : 0": 3, "N > 3 ? 1 : N == 3 ? 8 : 9": 8, "(N > 2 && Z < 0) + 1": 2,
    "N < 2 || Z <= -7": 1, "N != 3 || N >= 4 ? 1 : 2": 2, "Z > 0 && s[4] > 1 ? 1 : 2": 2,
    "N /* 4 */": 3, "((N))": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def variables():
    parsed = {declaration.name: declaration for declaration in declarations.parse(SCOPE)}
    values = {name: np.array(value) for name, value in VALUES.items()}
    return {name: declarations.DataVariable(parsed[name], x) for name, x in values.items()}


@pytest.mark.parametrize("written", EXPRESSIONS)
def test_sizes_are_computed_as_in_stan(written, variables, monkeypatch):
    size = EXPRESSIONS[written]
    code = f"data {{ {SCOPE} vector[{written}] x; }}\n{MODEL}"
    *_, x = declarations.parse(syntax.block(code, "data"))
    assert declarations.evaluate(x.sizes[0], variables) == size
    for switch in ("STANLI_NO_REROLL", "STANLI_NO_PARTITION", "STANLI_NO_INTERPRETER"):
        monkeypatch.setenv(switch, "1")
    text = json.dumps({**VALUES, "x": [0.5] * size})
    assert stanli.bridgestan_model(stan_code=code, data=text).param_unc_num() == 1
    with pytest.raises(RuntimeError, match="mismatch in dimension"):
        stanli.bridgestan_model(
            stan_code=code, data=json.dumps({**VALUES, "x": [0.5] * (size + 1)})
        )


@pytest.mark.parametrize(
    ("written", "value"),
    [("1.5e1", 15), ("-N^2", -9), ("2^-1", 0.5), ("1/2.", 0.5), (".5 + 1_0", 10.5), ("N - 4.", -1)],
)
def test_bounds_may_be_real(written, value, variables):
    (x,) = declarations.parse(f"real<lower={written}, offset=2> x;")
    assert declarations.evaluate(x.lower, variables) == value
    assert (x.lower.source, x.upper) == (written, None)


# Unknown names and functions, indices out of range, divisions by zero, and invalid expressions.
NOT_COMPUTED = """
f(N) | gone | s[4] | s[0] | s[1, 1] | N[1] | N / 0 | N % 0 | s[1:2] | N' | v * v | v / 2 | v + w
| N + | rows(N) | rows(gone) | max(s, s) | size() | v ? 1 : 2 | (-8)^.5 | 10.^400 | N ? 1 | N .* 2
"""


def test_declarations_in_stan_syntax(variables):
    code = "array[N, 2] vector<lower = f(a > b), offset=1>[ K+1 ] x; cov_matrix[K] S[N]; real y, z;"
    x, s, y, z = declarations.parse(code)
    assert x.to_stan() == "array[N, 2] vector<lower=f(a > b)>[K+1] x"
    assert x.to_stan((3, 2, None)) == "array[3, 2] vector<lower=f(a > b)>[K+1] x"
    assert s.to_stan((3, 2, 2)) == "array[3] cov_matrix[2] S"
    assert [(y.to_stan(), y.is_int), (z.to_stan(), z.dims)] == [("real y", False), ("real z", ())]
    assert declarations.parse("int 3x; vector[ K; = ; int n;") == []
    for written in NOT_COMPUTED.split("|"):
        (x,) = declarations.parse(f"real<lower={written}> x;")
        assert (x.name, x.lower.source) == ("x", written.strip())
        assert declarations.evaluate(x.lower, variables) is None, written


@pytest.mark.parametrize(("line", "trusted"), [
    ("if (!prior_only) x ~ normal(0, 1);", True),
    ("if (prior_only) { } else x ~ normal(0, 1);", True),
    ("if (x > prior_only) x ~ normal(0, 1);", False),
    ("if (!prior_only) if (x > 0) x ~ normal(0, 1);", False),
    ("if (!prior_only && x > 0) x ~ normal(0, 1);", False), ("if (other) x ~ normal(0, 1);", False),
])  # fmt: skip
def test_a_whole_number_of_the_data_is_no_branch_on_parameters(line, trusted):
    code = f"data {{ int<lower=0, upper=1> prior_only; }}\nmodel {{\n{line}\n}}"
    assert (control_flow.branches(code) == []) is trusted
    function = "real f(real prior_only) { if (prior_only) return 1; return 2; }"
    assert control_flow.branches(f"functions {{ {function} }}\n{code[:-1]}target += f(x); }}")
