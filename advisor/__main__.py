"""``python -m advisor`` is the same as ``advisor``."""

from advisor.cli import main

if __name__ == "__main__":
    main(prog_name="advisor")
