"""Run the command line: `python -m kvformat`."""

from __future__ import annotations

from kvformat.connectors.cli import main

main()
