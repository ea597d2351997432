"""`python -m stanadapt` is the command line."""

from stanadapt.cli import main

main()
