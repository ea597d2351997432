"""Copy the results of a run to where the page of reproductions reads them.

    python -m workflows.gad.neal --out output/neal
    python -m workflows.reproduction.keep output/neal gad/neal

Only CSV and JSON files are copied; figures are drawn again when the page is built. Quick runs are
refused, and so are folders without the record that says how they were made.
"""

import json
import shutil
from pathlib import Path

from workflows import terminal
from workflows.reproduction.recorded import RESULTS

LARGEST = 400_000  # bytes of a file
SUMMARIES = ("{stem}.csv",)  # which the files of every repeat contain
EVERY_REPEAT = ("{stem}_repeats.csv", "{stem}_chains.csv")


def keep(source: Path, name: str, results: Path = RESULTS) -> list[Path]:
    """Copy the results in a folder to `results/name`; return the new paths."""
    records = [path for path in source.glob("*.json") if "versions" in _content(path)]
    if len(records) != 1:
        raise SystemExit(f"{source} has {len(records)} records of a run; expected one JSON file.")
    record = records[0]
    if _content(record)["settings"].get("quick"):
        raise SystemExit(f"{record} is of a quick run: its numbers mean nothing.")
    left_out = {text.format(stem=record.stem) for text in SUMMARIES}
    has_repeats = any((source / text.format(stem=record.stem)).is_file() for text in EVERY_REPEAT)
    files = [
        path for path in sorted(source.glob("*.csv")) if not (has_repeats and path.name in left_out)
    ]
    large = [path.name for path in files if path.stat().st_size > LARGEST]
    if large:
        raise SystemExit(f"too large to commit, above {LARGEST:,} bytes: {', '.join(large)}.")
    folder = results / name
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return [Path(shutil.copy(path, folder / path.name)) for path in [*files, record]]


def _content(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    """Copy, and print the new paths."""
    parser = terminal.parser(__doc__)
    parser.add_argument("source", type=Path, help="the folder that a workflow wrote")
    parser.add_argument("name", help="PAPER/RUN, such as gad/neal")
    options = parser.parse_args()
    for path in keep(options.source, options.name):
        print(f"{path.stat().st_size:8d} bytes  {path}")


if __name__ == "__main__":
    main()
