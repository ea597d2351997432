"""Where the repository stands, for tests that read or copy it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE, WORKFLOWS = ROOT / "stanadapt", ROOT / "workflows"
