"""The commands; see the package's docstring."""

import argparse
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(
        prog="python -m book", description="Builds the book.")
    commands = parser.add_subparsers(dest="command", required=True)

    build = commands.add_parser("build", help="the pages, in _build/html/")
    build.add_argument("--source", type=Path, default=Path("."),
                       help="the folder that holds _config.yml")

    run = commands.add_parser(
        "run", help="execute notebooks and store their outputs")
    run.add_argument("notebooks", nargs="*", type=Path,
                     help="default: every chapter and solution")

    commands.add_parser("stamp", help="write every notebook's set-up cell")

    arguments = parser.parse_args()
    if arguments.command == "build":
        from book.build import build
        return build(arguments.source)
    if arguments.command == "run":
        from book.run import run
        return run(arguments.notebooks)
    from book.stamp import stamp
    return stamp()


if __name__ == "__main__":
    sys.exit(main())
