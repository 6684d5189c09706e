"""An engine's numbers as prometheus_client exposes them, and the endpoint where a worker answers scrapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from perdure.errors import DefinitionError
from perdure.telemetry.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client import Metric as Family

    from perdure.telemetry.metrics import Metric, Numbers, Times

    Read = Mapping[str, Mapping[tuple[str, ...], float]]
    """What is read at a scrape, by metric and labels."""

LOOPBACK: Final = "127.0.0.1"
_MOST_PORT: Final = 65535


class EngineCollector(Collector):
    """Collects one engine's metrics, to be registered with a registry of prometheus_client's.

    Args:
        numbers: what the engine has counted.
        read: reads what is not counted: slots, and what is in the store.
    """

    def __init__(self, numbers: Numbers, read: Callable[[], Read]) -> None:
        self._numbers, self._read = numbers, read

    def describe(self) -> Iterator[Family]:
        """The metrics there may be; nothing is read for it."""
        for metric in METRICS.values():
            yield _family(metric)

    def collect(self) -> Iterator[Family]:
        """The metrics as they are now; called on whatever thread answers a scrape."""
        read = self._read()
        for metric in METRICS.values():
            family: Any = _family(metric)
            if metric.form == "histogram":
                for labels, times in list(self._numbers.times[metric.name].items()):
                    family.add_metric(labels, *_cumulated(times))
            else:
                counted = read.get(metric.name)
                series: Mapping[tuple[str, ...], float] = (
                    self._numbers.counts.get(metric.name, {}) if counted is None else counted
                )
                for labels, value in list(series.items()):
                    family.add_metric(labels, value)
            if family.samples:
                yield family

    def text(self) -> str:
        """The metrics in Prometheus's text format."""
        registry = prometheus_client.CollectorRegistry(auto_describe=False)
        registry.register(self)
        return prometheus_client.generate_latest(registry).decode()


class Endpoint:
    """Answers scrapes on a thread of its own, until it is closed.

    Args:
        collector: what is collected.
        address: ``"host:port"``, or a port, of the loopback interface. Port 0 takes a free one.

    Attributes:
        address: where it listens.

    Raises:
        DefinitionError: that is no address, or it cannot be listened at.
    """

    def __init__(self, collector: EngineCollector, address: str) -> None:
        registry = prometheus_client.CollectorRegistry(auto_describe=False)
        registry.register(collector)
        host, port = parsed(address)
        try:
            self._server, self._thread = prometheus_client.start_http_server(port, host, registry)
        except OSError as error:
            raise DefinitionError(
                f"metrics cannot be served at {host}:{port}: {error.strerror or error}",
                advice="another worker may have the port: give each one of its own, or 0 for a free one",
                address=address,
            ) from error
        self.address = f"{f'[{host}]' if ':' in host else host}:{self._server.server_port}"

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def parsed(address: str) -> tuple[str, int]:
    """Return host and port of an address; without a host it is the loopback interface.

    Raises:
        DefinitionError: it is none.
    """
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > _MOST_PORT:
        raise DefinitionError(
            f"{address!r} is no address for metrics", advice='write "127.0.0.1:9464", or the port alone'
        )
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def _family(metric: Metric) -> Family:
    if metric.form == "counter":
        return CounterMetricFamily(metric.name.removesuffix("_total"), metric.meaning, labels=metric.labels)
    if metric.form == "histogram":
        return HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    return GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)


def _cumulated(times: Times) -> tuple[list[tuple[str, float]], float]:
    buckets: list[tuple[str, float]] = []
    so_far = 0
    for bound, count in zip((*map(str, times.bounds), "+Inf"), list(times.counts), strict=True):
        so_far += count
        buckets.append((bound, so_far))
    return buckets, times.total


__all__ = ["Endpoint", "EngineCollector", "parsed"]
