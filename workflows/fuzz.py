"""Random programs against an exact oracle: is what stanli's rails admit right? `make fuzz`.

    python workflows/fuzz.py --quick
    python workflows/fuzz.py --programs 1000 --seed 0
    python workflows/fuzz.py --programs 100 --native      # some ten minutes
    python workflows/fuzz.py --no-rails                   # what the rails are for

Three in ten programs branch on parameters. stanli runs in processes of its own, for unguarded it
can kill them. With `--native`, CmdStan compiles the programs too, many at once, and is compared
with the same oracle at the same positions: so it judges both, also on what the rails refuse.
The exit status is 1 if anything admitted is wrong, or the oracle is.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

import stanadapt as sa

# the programs, their oracle and the runner belong to the tests, which are no package
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import program_runner
import random_programs
from program_runner import Verdict

FACTORY = "random_programs:mixed_program"
KINDS = {False: "no", True: "yes"}
FAULTS = ("wrong", "crashed")


def natively(seeds: list[int], size: int) -> Iterator[Verdict]:
    """Yield verdicts on CmdStan's values; one compilation for `size` programs."""
    for start in range(0, len(seeds), size):
        programs = [random_programs.mixed_program(seed) for seed in seeds[start : start + size]]
        beyond = [program for program in programs if not program.compiles]
        for program in beyond:
            yield Verdict(program.seed, "refused", words="Stan 2.27 may make invalid C++ of it")
        programs = [program for program in programs if program.compiles]
        code = random_programs.batch(programs)
        for which, program in enumerate(programs, 1):
            target = sa.Target(code, {**program.data, "which": which}, backend="cmdstan")
            yield program_runner.verdict(program, program.seed, target.model)


def summary(title: str, verdicts: dict[str, list[Verdict]]) -> Table:
    """One row for each backend, without and with branches on parameters."""
    caption = "largest: of the relative differences of values and gradients, where right"
    table = Table("", title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("branches", "programs", "refused", "admitted", *FAULTS, "largest"):
        table.add_column(heading, justify="right")
    for backend, found in verdicts.items():
        for branching, kind in KINDS.items():
            own = [v for v in found if random_programs.branches(v.number) == branching]
            refused, *faults = (sum(v.outcome == o for v in own) for o in ("refused", *FAULTS))
            largest = max((v.error for v in own if v.outcome == "right"), default=0.0)
            counts = (len(own), refused, len(own) - refused, *faults)
            table.add_row(backend, kind, *map(str, counts), f"{largest:.0e}")
    return table


def report(faults: Iterable[tuple[str, Verdict]], console: Console) -> None:
    """Name each wrong seed, and print the first one's program."""
    for number, (backend, fault) in enumerate(faults):
        line = f"{backend}: seed {fault.number} {fault.outcome}, difference {fault.error:.0e}"
        console.print(f"{line}. {fault.words}", style="red", markup=False, soft_wrap=True)
        if number == 0:
            program = random_programs.mixed_program(fault.number)
            console.print(program.code, markup=False, highlight=False, soft_wrap=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    switch = argparse.BooleanOptionalAction
    words = "compile each with CmdStan, as referee: some seven seconds a program"
    parser.add_argument("--native", action=switch, default=False, help=words)
    words = "with --no-rails: construct as someone does who knows of none"
    parser.add_argument("--rails", action=switch, default=True, help=words)
    parser.add_argument("--batch", type=int, default=25, help="programs to a compilation")
    parser.add_argument("--quick", action="store_true", help="40 programs, not native")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    if chosen.quick:
        chosen.programs, chosen.native = 40, False
    seeds = list(range(chosen.seed, chosen.seed + chosen.programs))
    console = Console()
    name = "stanli" if chosen.rails else "no rails"
    running = {name: program_runner.run(FACTORY, seeds, chosen.rails)}
    if chosen.native:
        running["CmdStan"] = natively(seeds, chosen.batch)
    verdicts = {
        backend: list(track(each, backend, total=len(seeds), console=console))
        for backend, each in running.items()
    }
    console.print(summary(f"seeds {seeds[0]} to {seeds[-1]}", verdicts))
    faults = [(b, v) for b, found in verdicts.items() for v in found if v.outcome in FAULTS]
    report(faults, console)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
