"""The command line of the fuzzer: `scripts/fuzz --help`."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.fuzz import bombs
from tests.fuzz.run import ALL_PROPERTIES, ANSWERED, SOURCE, SUBJECTS, Finding, Fuzzer

BOMBS = "bombs"


def main() -> int:
    """Run the fuzzer. Returns the exit code: 1 if it found something."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description="Try messages, statements and options changed at random."
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long; bombs take what they take (default: 60)")
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() % 10**9, help="what all chance comes from (default: the time)"
    )
    parser.add_argument(
        "--format", action="append", choices=[*SUBJECTS, BOMBS], help="what is tried (default: all); may be repeated"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[*ALL_PROPERTIES, SOURCE, ANSWERED],
        default=[],
        help="the property that is tried (default: all); may be repeated",
    )
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # of the plans of tables
    chosen = given.format or [*SUBJECTS, BOMBS]
    print(f"seed {given.seed}", flush=True)
    failures = 0
    if BOMBS in chosen and not given.only:
        results = [bombs.run(bomb) for bomb in bombs.BOMBS]
        failures += sum(result.failure is not None for result in results)
        print(bombs.table(results), flush=True)
    subjects = [subject for subject in chosen if subject != BOMBS]
    fuzzer = Fuzzer(given.seed, only=given.only, told=_tell)
    if subjects:
        report = fuzzer.run(given.seconds, subjects)
        failures += len(report.findings)
        print(
            f"\n{report.table()}\n{report.messages:,} messages. Numbers are batches, of statements and options texts."
        )
        for kind, count in report.again.items():
            print(f"{count} times {' '.join(kind)}")
    print(f"{failures} findings, seed {given.seed}")
    return int(failures > 0)


def _tell(finding: Finding) -> None:
    print(f"\n{finding}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
