"""Where a program that one backend refuses can run instead, and the reasons of each backend.

Advice depends on the computer: CmdStan may be missing, may accept the program, or may refuse it as
well. Its Stan compiler is asked, which takes milliseconds, so that no message advises a step that
cannot help or was tried before.
"""

import functools
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.syntax import HIDDEN, strip

INSTALL = (
    "Use backend='cmdstan', which compiles the program (`stanadapt install-cmdstan` installs "
    "CmdStan; it needs a C++ compiler)"
)
NEWER = "a newer CmdStan (`stanadapt install-cmdstan` installs the newest if it can reach GitHub)"
LAST_OLD = (2, 32)  # Stan's compiler has accepted no older syntax since
REWRITES = "`stanc --print-canonical FILE` of such a version rewrites the program"
SECONDS = 60.0
# the forms that were removed: declarations as in `real y[N];`, `<-`, increment_log_prob, comments
# after a hash, and functions that have another name now
_OLD_ARRAY = r"\b(?:int|real|(?:row_)?vector|matrix)(?:\s*<[^;{}]*>)?(?:\s*\[[^;{}]*\])?\s+\w+\s*\["
# by form, what is written instead
_OLD = {
    re.compile(_OLD_ARRAY): "`array[N] real x` in place of `real x[N]`",
    re.compile("<-"): "`=` in place of `<-`",
    re.compile(r"\bincrement_log_prob\s*\("): "`target += x` in place of `increment_log_prob(x)`",
    re.compile(r"\bget_lp\s*\("): "`target()` in place of `get_lp()`",
    re.compile(r"\bif_else\s*\("): "`a ? b : c` in place of `if_else(a, b, c)`",
    re.compile(r"\bintegrate_ode\w*\s*\("): "`ode_rk45`, `ode_bdf` or `ode_adams`",
    re.compile(r"\bcov_exp_quad\s*\("): "`gp_exp_quad_cov`",
    re.compile(r"\b(?:fabs|abs_log)\s*\("): "`abs`",
    re.compile(r"\b\w+_log\s*\("): "a name that ends in `_lpdf` or `_lpmf`",
}
_LAMENTS = re.compile(r"STANLI_|https?://|report this|stanli build|\bUnset\b")
_NO_PATH = re.compile(r"have no compiled path:\s*(.*?)\.\s+Unset it", re.DOTALL)


class Installed(NamedTuple):
    """The CmdStan of this computer, with regard to a program."""

    name: str
    refusal: str  # the objection of its Stan compiler; "" if it accepts the program
    missing: str  # how to get a C++ compiler; "" if there is one


def _installed(program: Program) -> Installed | None:
    cmdstan = toolchain.cmdstan()
    if cmdstan is None:
        return None
    name = f"CmdStan {cmdstan.version}, which is installed,"
    return Installed(name, refused_by(cmdstan, program), toolchain.compiler_problem())


def elsewhere(program: Program) -> str:
    """Return a sentence, without its full stop, on the backend that can run the program instead."""
    installed = _installed(program)
    if installed is None:
        problem = toolchain.cmdstan_problem()
        return f"{problem.rstrip('.')}. {INSTALL}" if problem else INSTALL
    if installed.refusal:
        reason = first_reason(installed.refusal).rstrip(".")
        return f"{installed.name} does not accept the program either ({reason}). Use {NEWER}"
    text = f"{installed.name} accepts the program: use backend='cmdstan'"
    if not installed.missing:
        return text
    return f"{text} once there is a compiler. {installed.missing.rstrip('.')}"


def slow_to_bind(program: Program) -> str:
    """Return the line to report while the embedded backend binds a program for a long time."""
    text = (
        f"Binding {program.name} in the embedded backend: time and memory grow with the data and "
        "with the lengths of loops, which it unrolls"
    )
    installed = _installed(program)
    if installed is None:
        return f"{text} (CmdStan does not: `stanadapt install-cmdstan`)"
    if installed.missing or installed.refusal:
        return text
    return f"{text} (backend='cmdstan' compiles it in about half a minute)"


@functools.lru_cache(maxsize=16)
def refused_by(installed: toolchain.CmdStan, program: Program) -> str:
    """Return the objection of a CmdStan's compiler to the program; "" if it accepts it."""
    stanc = (installed.path / "bin" / f"stanc{toolchain.EXE}").absolute()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "program.stan")
        source.write_text(program.code, encoding="utf-8")
        command = [str(stanc), "--name=program", "--o=program.hpp", source.name]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace",
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    output = (done.stderr + done.stdout).strip().replace(source.name, program.name)
    return (output or "no reason given") if done.returncode else ""


def accepted_by_newest(program: Program) -> bool:
    """Return whether the newest Stan compiler at hand, the embedded one, accepts the program."""
    try:
        import stanli  # loads a 41 MB library, hence not at import

        stanli.stan_to_mir(program.code)
    except (RuntimeError, ImportError):
        return False
    return True


def too_old(version: str, program: Program) -> str:
    """Return an addition to a CmdStan's refusal of a program: one or the other may be too old."""
    if accepted_by_newest(program):
        return (
            f" A newer compiler does: CmdStan {version} is too old for it. Use {NEWER}, or try "
            "backend='stanli', which has a newer compiler."
        )
    return older_syntax(program)


def older_syntax(program: Program) -> str:
    """Return a sentence about syntax that Stan has removed; "" if the program has none."""
    installed = _installed(program)
    if installed and not installed.refusal:
        missing = f" once there is a compiler. {installed.missing}" if installed.missing else "."
        return f" {installed.name} accepts this older syntax: use backend='cmdstan'{missing}"
    if installed and toolchain.numbers(installed.name)[:2] <= LAST_OLD:
        return ""  # then something else than older syntax is wrong
    hashes = (match["hash"] or "" for match in HIDDEN.finditer(program.code))
    has_comment = any(found and not found.startswith("#include") for found in hashes)
    code = strip(program.code)
    found = [
        (code[: old.start()].count("\n") + 1, new)
        for form, new in _OLD.items()
        if (old := form.search(code))
    ]
    if not found and not has_comment:
        return ""
    shown = "".join(f" In line {line}, write {new}." for line, new in sorted(found))
    return (
        f" It has syntax that Stan removed in version 2.33: CmdStan up to 2.32 accepts it, "
        f"and {REWRITES}.{shown}"
    )


def first_reason(text: str) -> str:
    """Return the reason in a compiler's message: the line that follows its excerpt."""
    lines = [line.strip() for line in text.splitlines()]
    rulers = [i for i, line in enumerate(lines) if re.fullmatch(r"-{5,}", line)]
    after = [line for line in lines[rulers[-1] + 1 :] if line] if rulers else []
    return next(iter(after or [line for line in lines if line]), "no reason given")


def reason_of_stanli(text: str) -> str:
    """Return the reason in a message of stanli, without its switches and its author's address."""
    found = _NO_PATH.search(text)
    if found:
        return f"no compiled path: {found[1]}".replace("stanli compile: ", "")
    kept = [part for part in re.split(r"(?<=[.!])\s+", text) if not _LAMENTS.search(part)]
    # the rest of a line is a node of the syntax tree
    text = re.sub(r"\s*\|?\s*in: \((\w+)\s.*", r" \1", " ".join(kept), flags=re.DOTALL).strip()
    return re.sub(r"\b(\w+) \1$", r"\1", text)


def of_all(program: Program, errors: list[tuple[str, StanadaptError]]) -> StanadaptError:
    """Return one error for syntax errors of several backends, given by name, the newest last.

    If all complain about the same line, the newest compiler's words are enough.
    """
    if len(errors) == 1:
        return errors[0][1]
    names = " nor ".join(name for name, _ in errors)
    lines = {tuple(re.findall(r"line (\d+)", error.stan)[:1]) for _, error in errors}
    message = f"neither {names} accepts {program.name}.{older_syntax(program)}"
    if len(lines) == 1 and lines != {()}:
        return StanadaptError("syntax_error", message, errors[-1][1].stan)
    quoted = (f"{name}: {error.stan or error.message}" for name, error in errors)
    return StanadaptError("syntax_error", message, "\n".join(quoted))
