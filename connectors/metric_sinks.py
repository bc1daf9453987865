"""Where metrics go: to Prometheus, as an endpoint or a file of its client library, or to StatsD, as UDP packets.

StatsD's protocol is a line of text for each number, so this module writes it itself. StatsD has no labels: the values
of the labels follow the name, `kvformat.lag_records.<query>.<topic>`.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from kvformat.connectors.metric_declarations import Metric
from kvformat.registry.contract.errors import ConfigurationError, needs_extra

_BUCKETS: Final = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
"""Upper bounds of the histogram of a batch's seconds."""
_LARGEST_PACKET: Final = 1400  # bytes: the packets of an Ethernet have 1,500, with their headers
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\s]+):(\d{1,5})")


class PrometheusSink:
    """The client library of Prometheus: an endpoint at a port, and a file.

    `labels` are the values of a metric's labels.
    """

    def __init__(self, metrics: Sequence[Metric], port: int | None, host: str, textfile: str | None) -> None:
        with needs_extra("metrics for Prometheus need prometheus-client, which is not installed", extra="metrics"):
            import prometheus_client
        self._client, self._textfile = prometheus_client, textfile
        self._registry = prometheus_client.CollectorRegistry()
        self._metrics: dict[str, Any] = {metric.name: self._made(metric) for metric in metrics}
        self._server: Any = None
        self.port: int | None = None
        if port is not None:
            try:
                self._server, _ = prometheus_client.start_http_server(port, host, self._registry)
            except OSError as cause:
                raise ConfigurationError(
                    f"the endpoint for Prometheus can't listen at {host}, port {port}: {cause.strerror or cause}. "
                    "Choose another port, or 0 for a free one"
                ) from cause
            self.port = self._server.server_port

    def _made(self, metric: Metric) -> Any:
        more: dict[str, Any] = {"registry": self._registry}
        if metric.kind == "histogram":
            return self._client.Histogram(metric.name, metric.doc, metric.labels, buckets=_BUCKETS, **more)
        kind = self._client.Counter if metric.kind == "counter" else self._client.Gauge
        return kind(metric.name, metric.doc, metric.labels, **more)

    def _series(self, metric: Metric, labels: Sequence[str]) -> Any:
        return self._metrics[metric.name].labels(*labels)

    def add(self, metric: Metric, count: float, labels: Sequence[str]) -> None:
        """Add to a counter; 0 begins its time series."""
        self._series(metric, labels).inc(count)

    def set(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Set a gauge."""
        self._series(metric, labels).set(value)

    def set_age(self, metric: Metric, since: float, labels: Sequence[str]) -> None:
        """Let a gauge be computed when it is scraped."""
        self._series(metric, labels).set_function(lambda: max(0.0, time.time() - since))

    def observe(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Add a number to a histogram."""
        self._series(metric, labels).observe(value)

    def forget(self, metric: Metric, labels: Sequence[str]) -> None:
        """Remove a time series."""
        with contextlib.suppress(KeyError):
            self._metrics[metric.name].remove(*labels)

    def flush(self) -> None:
        """Replace the file."""
        if self._textfile is not None:
            self._client.write_to_textfile(self._textfile, self._registry)

    def close(self) -> None:
        """Close the endpoint. The file stays."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class StatsdSink:
    """A StatsD server at `host:port`. A packet that gets lost is no error, as always with UDP."""

    def __init__(self, address: str) -> None:
        parts = _ADDRESS.fullmatch(address.strip())
        if parts is None or not 0 < int(parts[2]) < 1 << 16:
            raise ConfigurationError(f"statsd={address!r} must be host:port, such as 'localhost:8125'")
        self._to: Any
        try:
            (family, kind, _, _, self._to), *_ = socket.getaddrinfo(
                parts[1].strip("[]"), int(parts[2]), type=socket.SOCK_DGRAM
            )
        except OSError as cause:
            raise ConfigurationError(f"statsd={address!r}: the host is unknown: {cause.strerror or cause}") from cause
        self._socket = socket.socket(family, kind)
        self._socket.setblocking(False)
        self._lines: list[str] = []

    def add(self, metric: Metric, count: float, labels: Sequence[str]) -> None:
        """Send a count; StatsD needs no zeros."""
        if count:
            self._line(metric.name.removesuffix("_total"), labels, f"{count:.12g}|c")

    def set(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Send a gauge."""
        self._line(metric.name, labels, f"{value:.12g}|g")

    def set_age(self, metric: Metric, since: float, labels: Sequence[str]) -> None:
        """Send the age of this moment."""
        self.set(metric, max(0.0, time.time() - since), labels)

    def observe(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Send a time, which StatsD wants in milliseconds."""
        self._line(metric.name.replace("_seconds", "_milliseconds"), labels, f"{1000 * value:.12g}|ms")

    def forget(self, metric: Metric, labels: Sequence[str]) -> None:
        """Do nothing: a StatsD server keeps its last number."""

    def _line(self, name: str, labels: Sequence[str], text: str) -> None:
        parts = [name.replace("kvformat_", "kvformat."), *(_NOT_A_NAME.sub("_", label) for label in labels)]
        self._lines.append(f"{'.'.join(parts)}:{text}")

    def flush(self) -> None:
        """Send the lines, several in a packet."""
        lines, self._lines = self._lines, []
        packet = ""
        for line in [*lines, ""]:
            if packet and (not line or len(packet) + 1 + len(line) > _LARGEST_PACKET):
                with contextlib.suppress(OSError):  # nobody listens, or the buffer is full
                    self._socket.sendto(packet.encode("ascii"), self._to)
                packet = ""
            packet = f"{packet}\n{line}" if packet else line

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


MetricSink: TypeAlias = PrometheusSink | StatsdSink
"""A place for the numbers of metrics."""
