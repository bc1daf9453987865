"""`python -m kvformat`: setup.py puts this file there too."""

from __future__ import annotations

from kvformat.connectors.cli import main

main()
