"""Find the target of a sink by its type: built in, or in the entry-point group `kvformat.targets`.

    [project.entry-points."kvformat.targets"]
    lake = "my_package:LakeTarget"          sink: {type: lake, url: ...}

The class has an `identifier`, `option_specs` and `from_sink`; `Target` describes them. A class is imported when a sink
of its type is checked. The built-in types are a table, so that they work without an installed distribution.
"""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import TYPE_CHECKING

from kvformat.ingestion.pipeline.options import SINK_NAME
from kvformat.ingestion.targets.target import Target
from kvformat.registry.contract.discovery import entry_points
from kvformat.registry.contract.errors import ConfigurationError, OptionError, PluginError, did_you_mean, listed

if TYPE_CHECKING:
    from kvformat.ingestion.pipeline.sink import PipelineSink
    from kvformat.registry.contract.options import Option

GROUP = "kvformat.targets"
_BUILT_IN = {
    "kafka": "topics:TopicTarget",
    "upsert-kafka": "topics:UpsertTopicTarget",
    "delta": "delta:DeltaTarget",
    "iceberg": "iceberg:IcebergTarget",
    "values": "values:ValuesTarget",
}
"""Module and class of each type that needs no other package."""
BUILT_IN = tuple(_BUILT_IN)
"""The types of sinks that need no other package."""


def target_of(sink: PipelineSink) -> Target:
    """Return the target of a checked sink.

    Raises `ConfigurationError` if the sink is refused, and the errors of `target_class`.
    """
    if sink.target is not None:
        return sink.target
    if sink.refused:
        raise ConfigurationError(f"the sink can't be written: {'; '.join(sink.refused)}")
    return target_class(sink.type).from_sink(sink)


def available_targets() -> list[str]:
    """Return the types of sinks, sorted, without loading them."""
    return sorted({*_BUILT_IN, *entry_points(GROUP)})


def sink_options(type_: str) -> tuple[Option, ...]:
    """Return the options of a type of sink, without those of its formats. Raises the errors of `target_class`."""
    return (*SINK_NAME, *target_class(type_).option_specs)


def target_class(type_: str) -> type[Target]:
    """Return the class of a type of sink.

    Raises `OptionError` for an unknown type, and `PluginError` for a package that can't be loaded, or that has a class
    which is not a target of this name.
    """
    if type_ in _BUILT_IN:
        return _built_in(_BUILT_IN[type_])
    points = entry_points(GROUP).get(type_, [])
    if not points:
        names = available_targets()
        raise OptionError(
            f"sink: unknown type {type_!r}.{did_you_mean(type_, names)} Types: {listed(names)}. Packages with entry "
            f"points in '{GROUP}' add types",
            option="type",
        )
    if len(points) > 1:
        owners = " and ".join(sorted(map(_owner, points)))
        raise PluginError(f"sinks of type '{type_}' are provided by {owners}; uninstall one of them")
    try:
        target = points[0].load()
    except (Exception, SystemExit) as cause:  # the import of a plugin may raise anything
        raise PluginError(f"cannot load the sink '{type_}' of {_owner(points[0])}: {cause!r}") from cause
    if not (isinstance(target, type) and issubclass(target, Target)):
        raise PluginError(
            f"the sink '{type_}' of {_owner(points[0])} is not a subclass of kvformat.ingestion.Target: {target!r}"
        )
    if getattr(target, "identifier", None) != type_:
        raise PluginError(
            f"{_owner(points[0])} registers {target.__module__}.{target.__qualname__} as '{type_}', but its identifier "
            f"is {getattr(target, 'identifier', None)!r}"
        )
    return target


def _built_in(place: str) -> type[Target]:
    module, _, name = place.partition(":")
    target: type[Target] = getattr(importlib.import_module(f"kvformat.ingestion.targets.{module}"), name)
    return target


def is_plugged(type_: str) -> bool:
    """Whether an installed package has a target of this type."""
    return type_ not in _BUILT_IN and type_ in entry_points(GROUP)


def _owner(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version} ({point.value})" if point.dist else point.value
