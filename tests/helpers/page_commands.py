"""Commands and examples on pages for users; functions that run them as a user would."""

import os
import re
import shlex
import subprocess
import sys

import pandas as pd


def blocks(page, language):
    """Return the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.S | re.M)


def commands_of(page):
    """Return the lines of a page for a shell."""
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]


def with_earlier(command, commands):
    """Return a command, after the commands of its page that write the files it reads."""
    words, writes = shlex.split(command), r"--(?:out|run|report) (\S+)"
    read = {word for word in words if word.startswith("output/")} - {*re.findall(writes, command)}
    earlier = commands[: commands.index(command)]
    needed = [
        each
        for each in earlier
        for out in re.findall(writes, each)
        if any(r == out or f"{out}/" in r for r in read)
    ]
    return [*dict.fromkeys(needed), command]


def run(arguments, folder, **variables):
    """Run a program in a folder, under more environment variables; return what it printed."""
    # as for a user: "auto" does not mean stanli here
    environment = {k: v for k, v in os.environ.items() if k != "STANADAPT_BACKEND"}
    done = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=3000,
        env=environment | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_stanadapt(command, folder, **variables):
    """Run `stanadapt ...` with this interpreter."""
    return run([sys.executable, "-m", "stanadapt", *shlex.split(command)[1:]], folder, **variables)


def repeated_verdicts(command, folder):
    """Return the verdicts of the repeats that a command wrote to its --out."""
    words = shlex.split(command)
    if "--repeats" not in words:
        return set()
    rows = pd.read_csv(folder / words[words.index("--out") + 1] / "repeats.csv")
    assert rows["failure"].isna().all()
    assert len(rows) >= int(words[words.index("--repeats") + 1])
    return set(rows["verdict"])


def written_fits(command, folder):
    """Return the fits that a command wrote to its --out, without Stan's NUTS; at least one.

    Return none if it writes something other than fits, such as a table or repeats.
    """
    words = shlex.split(command)
    if "--out" not in words or "--repeats" in words:
        return []
    out = folder / words[words.index("--out") + 1]
    if "cmdstan" in words:
        return [out]
    if out.suffix not in ("", ".nc"):
        assert out.is_file()
        return []
    fits = [out] if out.is_file() else [p for p in out.glob("*.nc") if p.stem != "nuts"]
    assert fits
    return fits
