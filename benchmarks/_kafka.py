"""A Kafka broker on this machine, whose CPU time is not part of a measured task."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its types are in a separate package
from _measure import tree_cpu_seconds

sys.path.append(str(Path(__file__).parent.parent))

from tests.support import services


class MeasuredBroker(services.KafkaBroker):
    """A broker that has started, and its process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        before = set(psutil.Process().children())
        self.start()
        (self.process,) = [found for found in psutil.Process().children() if found not in before]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the broker has used so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def others_cpu_seconds(self) -> float:
        """Return the CPU seconds of this process and its other children so far, for `measure`."""
        return tree_cpu_seconds() - self.cpu_seconds()
