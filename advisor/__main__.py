"""``python -m advisor`` is the same as ``advisor``."""

from advisor.cli import program

if __name__ == "__main__":
    program()
