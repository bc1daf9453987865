"""Find formats by name: in the entry-point group `kvformat.formats`, or registered in this process.

Entry points are listed early and loaded on first use. A broken plugin therefore affects only its own users, and
`get_format("raw")` imports no other format. The built-in formats are entry points too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from kvformat.registry.contract.errors import FormatClashError, PluginError, UnknownFormatError, did_you_mean, listed
from kvformat.registry.contract.fork_safe import Guarded
from kvformat.registry.contract.format_hooks import FormatHooks

if TYPE_CHECKING:
    from kvformat.registry.format import Format

GROUP = "kvformat.formats"

_turn: Guarded[None] = Guarded(lambda: None, reentrant=True)
_registered: dict[str, type[Format]] = {}
_loaded: dict[str, type[Format]] = {}
_points: dict[str, list[metadata.EntryPoint]] | None = None


def get_format(identifier: str, options: Mapping[str, Any] | None = None) -> Format:
    """Create a format by name, with Flink's options without their prefix.

    `get_format("json", {"ignore-parse-errors": "true"})`. Raises `UnknownFormatError`, `FormatClashError`,
    `PluginError`, `MissingExtraError` or `OptionError`.
    """
    return format_class(identifier)(options)


def available_formats() -> list[str]:
    """Return the names of all formats, sorted, without loading them."""
    with _turn.use():
        return sorted({*_registered, *_entry_points(refresh=True)})


def is_available(identifier: str) -> bool:
    """Return whether a format has this name, without a search for packages that were installed since the last one."""
    with _turn.use():
        return identifier in _registered or identifier in _entry_points()


def register_format(cls: type[Format]) -> type[Format]:
    """Register a format in this process; usable as a decorator.

    Registering the same class twice has no effect. Raises `FormatClashError` for another class with the same name, and
    `PluginError` for a class that is not a format.
    """
    if not _is_format(cls):
        raise PluginError(f"{cls!r} is not a subclass of kvformat.registry.Format")
    name = _checked_identifier(cls)
    with _turn.use():
        other = _registered.get(name)
        if other is None and _entry_points().get(name):
            other = _load(name)
        if other is not None and other is not cls:
            raise FormatClashError(
                f"format '{name}' is already registered by {_qualified_name(other)}; give {_qualified_name(cls)} "
                "another identifier",
                format=name,
            )
        if name not in _loaded:
            _registered[name] = cls
    return cls


def format_class(identifier: str) -> type[Format]:
    """Return the class of a format by name.

    Raises `UnknownFormatError`, `FormatClashError`, `PluginError` or `MissingExtraError`.
    """
    with _turn.use():
        if identifier in _registered:
            return _registered[identifier]
        if identifier not in _entry_points() and identifier not in _entry_points(refresh=True):
            names = {*_registered, *_entry_points()}
            raise UnknownFormatError(
                f"unknown format {identifier!r}.{did_you_mean(str(identifier), names)} "
                f"Available formats: {listed(names)}. Packages with entry points in '{GROUP}' add formats",
                format=str(identifier),
            )
        return _load(identifier)


def _entry_points(*, refresh: bool = False) -> Mapping[str, list[metadata.EntryPoint]]:
    global _points
    if _points is None or refresh:
        _points = entry_points(GROUP)
    return _points


def entry_points(group: str) -> dict[str, list[metadata.EntryPoint]]:
    """Return the entry points of a group by their names: several for a name if they differ."""
    points: dict[str, list[metadata.EntryPoint]] = {}
    for point in metadata.entry_points(group=group):
        same = points.setdefault(point.name, [])
        # a distribution may be listed twice, for example installed and on PYTHONPATH as a zip
        if all(other.value != point.value for other in same):
            same.append(point)
    return points


def _load(name: str) -> type[Format]:
    if name in _loaded:
        return _loaded[name]
    points = _entry_points()[name]
    if len(points) > 1:
        owners = " and ".join(sorted(_owner(point) for point in points))
        raise FormatClashError(f"format '{name}' is provided by {owners}; uninstall one of them", format=name)
    owner = _owner(points[0])
    try:
        cls: type[Format] = points[0].load()
    except (Exception, SystemExit) as cause:  # the import of a plugin may raise anything
        raise PluginError(f"cannot load format '{name}' of {owner}: {cause!r}", format=name) from cause
    if not _is_format(cls):
        raise PluginError(
            f"format '{name}' of {owner} is not a subclass of kvformat.registry.Format: {cls!r}", format=name
        )
    if _checked_identifier(cls) != name:
        raise PluginError(
            f"{owner} registers {_qualified_name(cls)} as '{name}', but its identifier is '{cls.identifier}'",
            format=name,
        )
    _loaded[name] = cls
    return cls


def _is_format(cls: object) -> bool:
    """Return whether an object is a class of a format; checks the base of `Format`, to avoid an import circle."""
    return isinstance(cls, type) and issubclass(cls, FormatHooks)


def _checked_identifier(cls: type[Format]) -> str:
    name = getattr(cls, "identifier", None)
    if not isinstance(name, str) or not name:
        raise PluginError(f"{_qualified_name(cls)} has no identifier; set the class attribute `identifier = '...'`")
    return name


def _owner(point: metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version} ({point.value})" if point.dist else point.value


def _qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
