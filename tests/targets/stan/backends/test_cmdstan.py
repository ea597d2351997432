"""The CmdStan backend with a CmdStan of scripts: failures before a library exists."""

import pytest

import stanadapt as sa
from stanadapt.engine.compiled.cache_folder import writable_folder
from stanadapt.errors import StanadaptWarning
from stanadapt.targets.stan import build_cache, toolchain
from stanadapt.targets.stan.backends import cmdstan
from stanadapt.targets.stan.program import read
from tests.helpers.codes import raises
from tests.helpers.fake_cmdstan import home

__all__ = ["home"]  # a fixture, autouse

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
MAKEFILE = """CMDSTAN_VERSION := 2.30.1
CXX := bin/cxx
O := 3
COMPILE.cpp = $(CXX) -O$(O) -c
LINK.cpp = $(CXX)
LDLIBS = -ldl
SUNDIALS = sundials
SUNDIALS_CVODES = sundials/one.o sundials/two.o
SUNDIALS_IDAS = sundials/two.o
-include make/local
print-%  : ; @echo $* = $($*)
"""
STANC = """#!/bin/sh
[ "$1" = --version ] && { echo stanc3; exit; }
echo "$*" >> "$CALLS/stanc"
for word; do case $word in --o=*) out=${word#--o=};; esac; done
cat "$word" > "$out"
"""
# CALLS/how changes its behavior as a function of its arguments
CXX = """#!/bin/sh
[ "$1" = --version ] && { echo fake compiler; echo >> "$CALLS/asked"; exit; }
echo "$*" >> "$CALLS/cxx"
[ -f "$CALLS/how" ] && . "$CALLS/how"
for word; do [ "$last" = -o ] && out=$word; last=$word; done
echo "$*" > "$out"
"""
# when the program, not the shared parts, is compiled
PROGRAM = 'case "$*" in *program.hpp*) {} ;; esac'
HEADERS = 'case "$*" in *c++-header*) {} ;; esac'
LINK = 'case "$*" in *-shared*) {} ;; esac'
MANY_LINES = "for i in `seq 1 50`; do echo compiler line $i. >&2; done; exit 1"


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(autouse=True)
def tree(tmp_path, monkeypatch):
    """Make a working CmdStan of scripts, an empty cache, and a folder that records calls."""
    folder = tmp_path / "tree"
    for name, text in (("stanc", STANC), ("stansummary", STANC), ("cxx", CXX)):
        script(folder / "bin" / name, text)
    (folder / "makefile").write_text(MAKEFILE)
    (tmp_path / "calls").mkdir()
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("CMDSTAN", str(folder))
    monkeypatch.setenv("CXX", str(folder / "bin" / "cxx"))
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def how(tmp_path):
    """Return a function that sets the behavior of the compiler."""
    return lambda text: (tmp_path / "calls" / "how").write_text(text)


def calls(tree, tool="cxx"):
    path = tree.parent / "calls" / tool
    return path.read_text().splitlines() if path.exists() else []


def compiled(code=NORMAL, name="schools", lines=None):
    report = (lambda text: None) if lines is None else lines.append
    program = read(code, name=name)
    return cmdstan.compilation(program, report).library(program)


def refused(code, *facts, program=NORMAL):
    with raises(code, *facts) as caught:
        sa.Target(program, backend="cmdstan")
    error = caught.value
    assert "Traceback" not in str(error)
    assert ".." not in error.message.replace("...", "")
    return error


def cached():
    """Return the contents of the cache, except the parts that all programs share."""
    root = writable_folder(build_cache.BUILDS)
    names = [path.name for path in root.iterdir()] if root.is_dir() else []
    return [name for name in names if not name.startswith(("parts-", "solvers-"))]


def assert_nothing_left_and_next_attempt_works(tree, how):
    assert cached() == []
    how("")
    library = compiled(name="program")
    assert library.file.is_file()
    assert len(cached()) == 2  # the folder and its marker


def test_common_parts_and_programs_are_compiled_once(tree):
    lines = []
    first = compiled(lines=lines)
    assert all(word in line for word, line in zip(("2.30.1", "schools"), lines, strict=True))
    assert len(calls(tree)) == 4  # header, bridge, program, link
    assert first.seconds > 0
    again = compiled(lines=lines)
    assert again == first._replace(seconds=0.0)
    assert len(calls(tree)) == 4
    assert len(lines) == 2
    other = compiled(NORMAL + "\n", lines=lines)
    assert other.file != first.file
    assert len(calls(tree)) == 6
    assert len(calls(tree, "stanc")) == 2
    assert len(calls(tree, "asked")) == 1


def test_libraries_are_kept_by_name_with_their_sources(tree):
    file = compiled().file
    assert file.name == "program.so"
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "program.hpp", "program.so", "schools.stan",
    ]  # fmt: skip
    # because Stan's messages contain the name of the program
    assert compiled(name="schools").file != compiled(name="radon").file


def test_settings_of_the_makefile_are_passed_to_the_compiler(tree):
    (tree / "make").mkdir()
    (tree / "make" / "local").write_text("O = 1\nSTANCFLAGS = --O\nLDLIBS += -lmine\n")
    compiled()
    *compilations, link = calls(tree)
    assert all("-O1" in line for line in compilations)
    assert all("-fPIC" in line for line in calls(tree))
    assert "-ldl -lmine" in link
    assert calls(tree, "stanc")[0].startswith("--O --name=schools_model")


@pytest.mark.parametrize("change", [
    lambda tree: (tree / "makefile").write_text(MAKEFILE.replace("-O$(O)", "-O2")),
    lambda tree: (tree / "makefile").write_text(MAKEFILE.replace("2.30.1", "2.30.2")),
    lambda tree: script(tree / "bin" / "cxx", CXX.replace("fake", "newer")),
], ids=["flags", "version of CmdStan", "version of the compiler"])  # fmt: skip
def test_relevant_changes_lead_to_a_new_compilation(tree, change):
    first = compiled()
    change(tree)
    second = compiled()
    assert second.file != first.file
    assert len(calls(tree)) == 8
    assert compiled().file == second.file


def test_flags_of_an_outer_make_are_ignored(monkeypatch):
    monkeypatch.setenv("MAKEFLAGS", "n")  # a dry run
    assert compiled().file.is_file()


def test_solvers_are_compiled_only_if_a_program_needs_them(tree, how):
    needed = 'case "$*" in *0.o*) ;; *) echo "undefined reference to CVodeInit" >&2; exit 1;; esac'
    how(LINK.format(needed))
    lines = []
    assert compiled(lines=lines).file.is_file()
    assert len(lines) == 3  # the shared parts, the program, the solvers
    sources = [line for line in calls(tree) if "sundials/" in line and "-x c " in line]
    assert sorted(line.split(" -c ")[1].split()[0] for line in sources) == [
        "sundials/one.c", "sundials/two.c",
    ]  # fmt: skip
    assert all("-O3" in line and "stan_sundials_printf_override.hpp" in line for line in sources)
    compiled(name="radon")
    assert len([line for line in calls(tree) if "-x c " in line]) == 2


def test_after_preparing_only_the_program_is_compiled(tree):
    cmdstan.prepare(lambda text: None)
    assert len(calls(tree)) == 2
    compiled()
    assert len(calls(tree)) == 4


@pytest.mark.parametrize(("phase", "what"), [
    (PROGRAM, "program"), (HEADERS, "headers"), ('case "$*" in *bridge.cpp*) {} ;; esac', "bridge"),
    (LINK, "linked"),
], ids=["program", "headers", "bridge", "link"])  # fmt: skip
def test_the_compiler_s_last_lines_are_shown(tree, how, phase, what):
    how(phase.format(MANY_LINES))
    facts = [what, "CmdStan 2.30.1", "`stanadapt doctor`", "backend='stanli'"]
    error = refused("compilation_failed", *facts)
    lines = error.message.splitlines()
    assert lines[-20:] == [f"compiler line {i}." for i in range(31, 51)]
    assert "line 30" not in str(error)
    assert_nothing_left_and_next_attempt_works(tree, how)


KILLED = "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1"
FULL = "echo 'as: program.o: No space left on device' >&2; exit 1"


@pytest.mark.parametrize(
    ("end", "facts"),
    [
        (PROGRAM.format("kill -9 $$"), ["killed", "memory"]),
        (PROGRAM.format(KILLED), ["killed", "memory"]),
        (HEADERS.format("kill -9 $$"), ["killed", "memory"]),
        (PROGRAM.format(FULL), ["disk", "STANADAPT_CACHE"]),
        (PROGRAM.format(r"printf 'erreur: \351\n' >&2; exit 1"), ["erreur: "]),
        (LINK.format("echo undefined reference to nowhere >&2; exit 1"),
         ["linked", "undefined reference to nowhere"]),
    ],
    ids=["killed", "killed by its message", "killed at headers", "disk", "encoding", "symbols"],
)  # fmt: skip
def test_other_ends_of_a_compiler_are_explained(tree, how, end, facts):
    how(end)
    refused("compilation_failed", *facts)
    assert_nothing_left_and_next_attempt_works(tree, how)


def test_solvers_that_do_not_compile_are_reported(tree, how):
    missing = "echo undefined reference >&2; exit 1"
    how(LINK.format(missing) + '\ncase "$*" in *one.c*) echo no such file; exit 1;; esac')
    refused("compilation_failed", "sundials/one.c", "no such file")
    builds = writable_folder(build_cache.BUILDS)
    assert [path for path in builds.iterdir() if "solvers" in path.name] == []
    assert_nothing_left_and_next_attempt_works(tree, how)


# file, its broken and its intact content, and what the error says
BROKEN = {
    "compiler of the makefile": (
        "make/local", "CXX = no-such-compiler\n", "",
        ["CmdStan 2.30.1", "{tree}", "no-such-compiler", "make/local"],
    ),
    "no settings": (
        "makefile", MAKEFILE.replace("@echo $* = $($*)", "@echo no settings"), MAKEFILE,
        ["makefile", "{tree}", "no settings"],
    ),
    "no rule": (
        "makefile", MAKEFILE.replace("print-%", "print"), MAKEFILE,
        ["CmdStan 2.30.1", "makefile", "print-COMPILE.cpp"],
    ),
    # a syntax error would let `auto` silently use another backend
    "killed stanc": (
        "bin/stanc", STANC + "kill -9 $$\n", STANC, ["CmdStan 2.30.1", "killed"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("file", "broken", "intact", "facts"), BROKEN.values(), ids=list(BROKEN))
def test_broken_files_of_cmdstan_are_reported(tree, how, file, broken, intact, facts):
    script(tree / file, broken)
    refused("compilation_failed", *(fact.format(tree=tree) for fact in facts))
    script(tree / file, intact)
    assert_nothing_left_and_next_attempt_works(tree, how)


def test_a_missing_compiler_is_reported(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    refused("backend_unavailable", "no-such-compiler", "conda install")


def test_a_compiler_removed_during_the_build_is_reported(tree, how):
    how(HEADERS.format(f'rm "{tree}/bin/cxx"'))
    refused("compilation_failed", "bridge", "bin/cxx")
    script(tree / "bin" / "cxx", CXX)
    assert_nothing_left_and_next_attempt_works(tree, how)


def test_errors_of_stanc_name_the_user_s_file(tree, how, tmp_path):
    refusing = STANC + "echo \"Syntax error in '$word', line 2, column 5\" >&2; exit 1\n"
    script(tree / "bin" / "stanc", refusing)
    path = tmp_path / "my radon.stan"
    path.write_text(NORMAL)
    error = refused("syntax_error", "CmdStan 2.30.1", "my radon", program=path)
    assert error.stan == f"Syntax error in '{path}', line 2, column 5"
    error = refused("syntax_error")
    assert error.stan == "Syntax error in 'program', line 2, column 5"
    assert "cache" not in str(error)
    assert calls(tree) == []
    script(tree / "bin" / "stanc", STANC)
    assert_nothing_left_and_next_attempt_works(tree, how)


def test_errors_of_an_old_cmdstan_mention_its_age(tree):
    """NORMAL is a valid program, as the embedded compiler knows."""
    (tree / "makefile").write_text(MAKEFILE.replace("2.30.1", "2.27.0"))
    script(tree / "bin" / "stanc", STANC + "exit 1\n")
    refused("syntax_error", "CmdStan 2.27.0", "too old", "backend='stanli'")
    error = refused("syntax_error", program="parameters { real x } model { }")
    assert "too old" not in error.message


def test_an_unwritable_cache_does_not_prevent_a_compilation(tree, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.warns(StanadaptWarning) as caught:
        refused("library_unusable", "program")  # it is text
    assert "STANADAPT_CACHE" in str(caught[0].message)
    assert calls(tree)


def test_a_library_that_does_not_load_is_recompiled_once(tree):
    """The fake compiler's libraries are text: recompiled once, then reported."""
    error = refused("library_unusable", "program", "install-cmdstan")
    assert "invalid ELF" in str(error) or "dlopen" in str(error)
    assert len(calls(tree)) == 6
    assert toolchain.cmdstan()
