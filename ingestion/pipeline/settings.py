"""The block `pipeline`: the query's name, the behaviour on changes of schemas, bad records, functions.

Rules: Flink CDC's `PipelineOptions` and page "Data Pipeline"; `checkpoint` and `trigger` are Spark's.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvformat.ingestion.pipeline.options import PIPELINE_OPTIONS, parse_values, texts
from kvformat.ingestion.pipeline.yaml import Secret, shown_key
from kvformat.registry.contract.errors import ConfigurationError, OptionError, did_you_mean
from kvformat.registry.contract.options import Option

_COLLECTOR, _FUNCTIONS, _MODEL = "dirty-data.collector", "user-defined-function", "model"
_WITHOUT_EFFECT = {
    "operator.uid.prefix": "operators of Spark have no ids",
    "schema.operator.uid": "operators of Spark have no ids",
    "schema-operator.rpc-timeout": "schemas change between two batches, without a message to an operator",
}
_EITHER_LINE = ("schema.change.behavior", "route-mode")
_AVAILABLE_NOW = "available-now"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?[+-](?:(?:0?\d|1[0-7])(?::?[0-5]\d)?|18(?::?00)?)", re.ASCII)
"""An offset of at most 18 hours, as in Java and Spark."""
_PYTHON = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
_FUNCTION_KEYS = ("name", "python", "classpath", "options")


@dataclass(frozen=True)
class PipelineSettings:
    """The checked block `pipeline`: `values` by name with defaults, and Python's `functions` (`module:name`) by name.

    trigger: the arguments of Spark's `trigger`; empty for Spark's default.
    """

    values: Mapping[str, Any]
    functions: Mapping[str, str]
    trigger: Mapping[str, Any]
    refused: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)


def parse_settings(block: Mapping[str, Any]) -> PipelineSettings:
    """Check the block `pipeline`. Raises `ConfigurationError`."""
    refused: list[str] = []
    options = texts("pipeline", _flat(block), (_FUNCTIONS, _MODEL))
    secret = next((key for key, text in options.items() if isinstance(text, Secret)), None)
    if secret is not None:
        raise OptionError(f"pipeline: option {shown_key(secret)} must not have a secret (secret_values)", option=secret)
    for key in _EITHER_LINE:
        if key in options:
            options[key] = options[key].replace("-", "_")
    values = parse_values("pipeline", PIPELINE_OPTIONS, options)
    if values["parallelism"] is not None and values["parallelism"] < 1:
        raise OptionError("pipeline: 'parallelism' must be at least 1", option="parallelism")
    _check_time_zone(values["local-time-zone"])
    _check_collector(values)
    functions = _functions(block.get(_FUNCTIONS, ()), refused)
    if _MODEL in block:
        refused.append(f"pipeline: '{_MODEL}': functions of models are not supported")
    notes = [f"pipeline: no effect: '{key}'; {why}" for key, why in _WITHOUT_EFFECT.items() if key in options]
    return PipelineSettings(values, functions, _trigger(values), tuple(refused), tuple(notes))


def _flat(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block with the keys of the collector at its level."""
    settings = dict(block)
    collector = settings.pop(_COLLECTOR, {})
    if not isinstance(collector, Mapping):
        raise ConfigurationError(f"pipeline: '{_COLLECTOR}' must be a map, such as 'type: logger'")
    for key, value in collector.items():
        name = f"{_COLLECTOR}.{key}"
        if name in settings:
            raise OptionError(f"pipeline: '{name}' is set twice", option=name)
        settings[name] = value
    return settings


def _check_time_zone(name: str | None) -> None:
    if name is None or _OFFSET.fullmatch(name):
        return
    try:
        zoneinfo.ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        near = did_you_mean(name, zoneinfo.available_timezones())
        raise OptionError(
            f"pipeline: 'local-time-zone': there is no time zone {shown_key(name)}.{near} Use a name such as "
            "'Europe/Berlin', or an offset such as '+08:00'",
            option="local-time-zone",
        ) from None


def _check_collector(values: Mapping[str, Any]) -> None:
    type_, location = values[f"{_COLLECTOR}.type"], values[f"{_COLLECTOR}.location"]
    if type_ is None and location is not None:
        raise OptionError(f"pipeline: '{_COLLECTOR}' needs a 'type'", option=f"{_COLLECTOR}.type")
    if type_ in ("topic", "path") and not location:
        raise OptionError(f"pipeline: '{_COLLECTOR}' of type '{type_}' needs a 'location'", option=f"{_COLLECTOR}.type")
    if type_ == "logger" and location is not None:
        raise OptionError(
            f"pipeline: '{_COLLECTOR}' of type 'logger' has no 'location'", option=f"{_COLLECTOR}.location"
        )


def _functions(items: Any, refused: list[str]) -> dict[str, str]:
    """Return Python's functions by name; a class of the JVM is a refusal."""
    if not isinstance(items, list | tuple):
        raise ConfigurationError(f"pipeline: '{_FUNCTIONS}' must be a list: put '- ' before the first key of an entry")
    functions: dict[str, str] = {}
    for number, item in enumerate(items, 1):
        where = f"pipeline: {_FUNCTIONS} {number}"
        if not isinstance(item, Mapping):
            raise ConfigurationError(f"{where}: must be a map with 'name' and 'python'")
        options = texts(where, item, ("options",))
        unknown = next((key for key in item if key not in _FUNCTION_KEYS), None)
        if unknown is not None:
            near = did_you_mean(unknown, _FUNCTION_KEYS)
            raise OptionError(f"{where}: there is no option {shown_key(unknown)}.{near}", option=unknown)
        name = options.get("name", "").strip()
        if not name or name in functions:
            wrong = f"the name {shown_key(name)} is used twice" if name else "the option 'name' is missing"
            raise OptionError(f"{where}: {wrong}", option="name")
        if "python" not in options:
            refused.append(f"{where}: '{name}' is a class of the JVM; write it in Python, 'python: module:function'")
            continue
        if isinstance(options["python"], Secret) or not _PYTHON.fullmatch(options["python"]):
            raise OptionError(f"{where}: 'python' must be 'module:function'", option="python")
        functions[name] = options["python"]
    return functions


def _trigger(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of Spark's trigger."""
    text = values["trigger"]
    batch = values["execution.runtime-mode"] == "BATCH"
    if batch and text is not None and text.lower() != _AVAILABLE_NOW:
        raise OptionError(
            "pipeline: 'execution.runtime-mode' = 'BATCH' reads what is there, then stops; remove 'trigger'",
            option="trigger",
        )
    if batch or (text is not None and text.lower() == _AVAILABLE_NOW):
        return {"availableNow": True}
    if text is None:
        return {}
    try:
        length = Option(name="trigger", type="duration").parse(text)
    except ValueError:
        raise OptionError(
            f"pipeline: 'trigger' must be '{_AVAILABLE_NOW}' or a time such as '10 seconds'", option="trigger"
        ) from None
    return {"processingTime": f"{round(length.total_seconds() * 1000)} milliseconds"}
