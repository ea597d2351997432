"""Compare random programs, if stanli's guards admit them, with an exact oracle.

    python -m tests.fuzz --quick
    python -m tests.fuzz --programs 1000 --seed 0
    python -m tests.fuzz --programs 100 --native      # about ten minutes
    python -m tests.fuzz --no-guards                   # shows why the guards are needed

Three in ten programs branch on parameters. stanli runs in separate processes, because without the
guards it can kill them. With `--native`, CmdStan compiles the programs too, many at a time, and is
compared with the same oracle at the same positions. That also tests the oracle, even on programs
that the guards refuse. The exit status is 1 if an admitted program or the oracle is wrong.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

import stanadapt as sa
from tests.fuzz import program_runner, random_programs
from tests.fuzz.program_runner import Verdict

FACTORY = "tests.fuzz.random_programs:mixed_program"
KINDS = {False: "no", True: "yes"}
FAULTS = ("wrong", "crashed")


def natively(seeds: list[int], size: int) -> Iterator[Verdict]:
    """Yield verdicts on CmdStan's values, with one compilation per `size` programs."""
    for start in range(0, len(seeds), size):
        programs = [random_programs.mixed_program(seed) for seed in seeds[start : start + size]]
        for program in programs:
            if not program.compiles:
                reason = "Stan 2.27 may generate invalid C++ for it"
                yield Verdict(program.seed, "refused", reason=reason)
        programs = [program for program in programs if program.compiles]
        code = random_programs.batch(programs)
        for which, program in enumerate(programs, 1):
            target = sa.Target(code, {**program.data, "which": which}, backend="cmdstan")
            yield program_runner.verdict(program, program.seed, target.model)


def summary(title: str, verdicts: dict[str, list[Verdict]]) -> Table:
    """Make a table with two rows per backend: without and with branches on parameters."""
    caption = "largest: relative difference of values or gradients among the right programs"
    table = Table("", title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("branches", "programs", "refused", "admitted", *FAULTS, "largest"):
        table.add_column(heading, justify="right")
    for backend, every in verdicts.items():
        for branching, kind in KINDS.items():
            group = [v for v in every if random_programs.branches(v.number) == branching]
            refused, *faults = (sum(v.outcome == o for v in group) for o in ("refused", *FAULTS))
            largest = max((v.error for v in group if v.outcome == "right"), default=0.0)
            counts = (len(group), refused, len(group) - refused, *faults)
            table.add_row(backend, kind, *map(str, counts), f"{largest:.0e}")
    return table


def report(faults: Iterable[tuple[str, Verdict]], console: Console) -> None:
    """Report each wrong seed, and print the program of the first one."""
    for number, (backend, fault) in enumerate(faults):
        line = f"{backend}: seed {fault.number} {fault.outcome}, difference {fault.error:.0e}"
        console.print(f"{line}. {fault.reason}", style="red", markup=False, soft_wrap=True)
        if number == 0:
            program = random_programs.mixed_program(fault.number)
            console.print(program.code, markup=False, highlight=False, soft_wrap=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program")
    switch = argparse.BooleanOptionalAction
    text = "also compile the programs with CmdStan, about seven seconds per program"
    parser.add_argument("--native", action=switch, default=False, help=text)
    text = "with --no-guards, use stanli directly, without the checks of stanadapt"
    parser.add_argument("--guards", action=switch, default=True, help=text)
    parser.add_argument("--batch", type=int, default=25, help="programs per compilation")
    parser.add_argument("--quick", action="store_true", help="40 programs, not native")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.quick:
        options.programs, options.native = 40, False
    seeds = list(range(options.seed, options.seed + options.programs))
    console = Console()
    name = "stanli" if options.guards else "no guards"
    running = {name: program_runner.run(FACTORY, seeds, options.guards)}
    if options.native:
        running["CmdStan"] = natively(seeds, options.batch)
    verdicts = {
        backend: list(track(each, backend, total=len(seeds), console=console))
        for backend, each in running.items()
    }
    console.print(summary(f"seeds {seeds[0]} to {seeds[-1]}", verdicts))
    faults = [(b, v) for b, every in verdicts.items() for v in every if v.outcome in FAULTS]
    report(faults, console)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
