"""`python -m stanadapt` is the command line."""

from stanadapt.cli import main

if __name__ == "__main__":
    main()
