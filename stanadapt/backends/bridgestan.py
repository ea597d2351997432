"""The native backend over BridgeStan's own sources, where a user has them."""

import re
from pathlib import Path
from typing import Any

from stanadapt import builds, toolchain
from stanadapt.backends import native
from stanadapt.errors import StanadaptError
from stanadapt.program import Program
from stanadapt.status import Tell

SYNTAX = re.compile(r"(?i)(syntax|semantic) error")
FLAGS = ["STAN_THREADS=true"]
LINES = 20


def library(program: Program, tell: Tell) -> native.Library:
    """Compile a program, or find it compiled.

    Raises StanadaptError of stage "syntax" with stanc's words, or "installation" with the
    compiler's last ones.
    """
    tree = toolchain.bridgestan_tree()
    local = tree / "make" / "local"
    settings = local.read_text(encoding="utf-8") if local.is_file() else ""
    key = builds.key_of(
        tree, toolchain.versions(), settings, toolchain.compiler(), FLAGS, program.hash
    )

    def build(folder: Path) -> None:
        tell(f"Compiling {program.name} with BridgeStan: about a minute, once")
        source = folder / "program.stan"
        source.write_text(program.code, encoding="utf-8")
        _compile(program, source)

    made = builds.keep(program.name, key, build)
    return native.Library(made.folder / "program_model.so", key, made.seconds)


def load(program: Program, data: str, tell: Tell) -> tuple[Any, str, float]:
    """Return the model, Stan's version and the seconds of compilation; see `native.load`."""
    return native.load(program, data, library, tell)


def _compile(program: Program, source: Path) -> None:
    import bridgestan

    try:
        bridgestan.compile_model(source, make_args=FLAGS)
    except (RuntimeError, ValueError, OSError) as error:
        lines = str(error).replace(str(source), str(program.path or program.name)).splitlines()
        first = next((i for i, line in enumerate(lines) if SYNTAX.search(line)), None)
        if first is None:
            stage, told = "installation", lines[-LINES:]
        else:  # stanc's words, without what make says around them
            stage, told = "syntax", [x for x in lines[first:] if not x.startswith("make")]
        raise StanadaptError(
            stage,
            f"BridgeStan in {toolchain.bridgestan_tree()} cannot compile {program.name}.",
            "\n".join(told),
        ) from None
