"""Tests of formats fail if a kernel raises an unexpected exception, which its batch would not show.

The limits of cells are lower for the kernel's source, which takes its time.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvformat.codecs import KERNEL
from kvformat.codecs._kernel import reader
from kvformat.registry import format
from kvformat.registry.contract.cells import MOST_CELLS, MOST_CELLS_OF_A_BATCH
from kvformat.registry.contract.errors import KvFormatError
from kvformat.registry.contract.isolate_errors import Run


@pytest.fixture(autouse=True)
def kernels_do_not_raise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a kernel raises an exception that is not an error of the library.

    `isolate_errors` would read the batch again in parts, in which the mistake may not show. Tests that make a kernel
    raise on purpose have the mark `kernel_raises`.
    """
    if request.node.get_closest_marker("kernel_raises") is not None:
        return
    isolate_errors = format.isolate_errors

    def strict(run: Run[Any], count: int, *, what: str, **given: Any) -> Any:
        def shown(start: int, count: int) -> Any:
            try:
                return run(start, count)
            except (KvFormatError, ImportError):
                raise
            except Exception as error:
                raise pytest.fail.Exception(f"{what} raised {error!r} for {count} messages") from error

        return isolate_errors(shown, count, what=what, **given)

    monkeypatch.setattr(format, "isolate_errors", strict)


@pytest.fixture
def cell_limits(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return the cells that a message and a batch may have in addition; see `contract/cells.py`."""
    if KERNEL == "python":
        monkeypatch.setattr(reader, "MOST_CELLS", 2**15)
        monkeypatch.setattr(reader, "MOST_CELLS_OF_A_BATCH", 2**18)
        return 2**15, 2**18
    return MOST_CELLS, MOST_CELLS_OF_A_BATCH
