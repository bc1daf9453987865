"""Schema registries by the scheme of their URL: those of this library, and entry points in `kvformat.registries`."""

from __future__ import annotations

import functools
import re
from importlib import metadata

from kvformat.codecs.registries.known import CLIENTS
from kvformat.codecs.registries.requests import Requests
from kvformat.registry.contract.errors import (
    KvFormatError,
    OptionError,
    PluginError,
    SchemaRegistryError,
    did_you_mean,
    listed,
)
from kvformat.registry.contract.schema_registries import RegistrySettings, SchemaRegistry

GROUP = "kvformat.registries"
_SCHEME = re.compile(r"\s*([A-Za-z][\w+.-]*):")
_HTTP = "http"


def open_registry(settings: RegistrySettings) -> SchemaRegistry:
    """Return a new client of the registry of the settings, with timeouts and further attempts.

    Raises `OptionError` for a scheme that no package has, `PluginError` for a registry that can't be created, and
    `MissingExtraError`.
    """
    if not settings.url.strip():
        raise SchemaRegistryError(
            "the option 'url' is empty; set it to the URL of the schema registry", format=settings.format, url=""
        )
    scheme = _SCHEME.match(settings.url)
    name = settings.client or (scheme[1].lower() if scheme else _HTTP)
    points = _entry_points()
    if name not in points:
        _entry_points.cache_clear()  # the package may have been installed since
        points = _entry_points()
    if name not in points:
        if "://" in settings.url:
            raise OptionError(
                f"format '{settings.format}': no schema registry has URLs of the scheme '{name}'."
                f"{did_you_mean(name, points)} Known schemes: {listed(points)}. Packages with entry points in "
                f"'{GROUP}' add registries",
                format=settings.format,
                option="url",
            )
        name = _HTTP  # its client says what is wrong with the URL
    point, *others = points[name]
    if others:
        values = listed(entry_point.value for entry_point in points[name])
        raise PluginError(
            f"the schema registry '{name}' is provided by {values}; uninstall one of the packages",
            format=settings.format,
        )
    try:
        registry = point.load()(settings)
    except KvFormatError:
        raise
    except Exception as cause:  # a package may raise anything
        raise PluginError(
            f"format '{settings.format}': the schema registry '{name}' ({point.value}) can't be created: "
            f"{type(cause).__name__}: {settings.scrubbed(str(cause))}",
            format=settings.format,
        ) from None
    if not isinstance(registry, SchemaRegistry):
        raise PluginError(
            f"the schema registry '{name}' ({point.value}) is not a subclass of "
            f"kvformat.registry.authoring.SchemaRegistry: {type(registry).__qualname__}",
            format=settings.format,
        )
    return Requests(registry, settings)


@functools.lru_cache(maxsize=1)
def _entry_points() -> dict[str, list[metadata.EntryPoint]]:
    # those of this library are not in the metadata, which may be that of an older version than the one on the path
    points = {name: [metadata.EntryPoint(name, value, GROUP)] for name, value in CLIENTS.items()}
    for point in metadata.entry_points(group=GROUP):
        same = points.setdefault(point.name, [])
        if all(other.value != point.value for other in same):  # a distribution may be listed twice
            same.append(point)
    return points
