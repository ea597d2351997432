"""The native backend that uses BridgeStan's sources, if the user has them.

A file of its own, because each backend is one.
"""

import re
from pathlib import Path

from stanadapt.engine.console import Report
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan import build_cache, toolchain
from stanadapt.targets.stan.backends.native import Compilation
from stanadapt.targets.stan.program import Program

SYNTAX = re.compile(r"(?i)(syntax|semantic) error")
FLAGS = ["STAN_THREADS=true"]
LINES = 20


def compilation(program: Program, report: Report) -> Compilation:
    """Return how a program is compiled.

    The compilation raises StanadaptError, stage "syntax" with stanc's message, or "installation"
    with the compiler's last lines.
    """
    tree = toolchain.bridgestan_tree()
    assert tree is not None  # otherwise the backend is not available
    local = tree / "make" / "local"
    settings = local.read_text(encoding="utf-8") if local.is_file() else ""
    key = build_cache.make_key(
        tree, toolchain.versions(), settings, toolchain.compiler(), FLAGS, program.hash
    )

    def build(folder: Path) -> None:
        report(f"Compiling {program.name} with BridgeStan (once, about a minute)")
        source = folder / "program.stan"
        source.write_text(program.code, encoding="utf-8")
        _compile(program, source)

    return Compilation(key, "program_model.so", build)


def _compile(program: Program, source: Path) -> None:
    import bridgestan

    try:
        bridgestan.compile_model(source, make_args=FLAGS)
    except (RuntimeError, ValueError, OSError) as error:
        lines = str(error).replace(str(source), str(program.path or program.name)).splitlines()
        first = next((i for i, line in enumerate(lines) if SYNTAX.search(line)), None)
        if first is None:
            code, shown = "compilation_failed", lines[-LINES:]
        else:  # stanc's message, without the lines of make around it
            code, shown = "syntax_error", [x for x in lines[first:] if not x.startswith("make")]
        raise StanadaptError(
            code,
            f"BridgeStan in {toolchain.bridgestan_tree()} cannot compile {program.name}.",
            "\n".join(shown),
        ) from None
