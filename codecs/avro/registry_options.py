"""The options of formats for Avro with a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvformat.codecs.avro.reading import READ_ENUM_AND_FIXED
from kvformat.codecs.avro.types import VARIANT_COLUMNS
from kvformat.codecs.registries.options import CLIENT_OPTIONS, SUBJECT, cloud_options, url_option
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.options import Option
from kvformat.registry.format import Format

AVRO_OPTIONS = (
    url_option("<id>.avsc", cloud=False),
    SUBJECT,
    Option(
        name="schema",
        fallback=("schema-registry.schema",),
        doc="The Avro schema for reading and writing, instead of the schema derived from the table. Its types must be "
        "the table's types.",
    ),
    Option(
        name=READ_ENUM_AND_FIXED,
        type="boolean",
        default=False,
        doc="Ours. Whether an enum is read as STRING and a fixed as BYTES. Otherwise, only the option `schema` reads "
        "them, as in Flink. Ingestion sets it.",
    ),
    VARIANT_COLUMNS,
    *CLIENT_OPTIONS,
)
"""The options of Flink's formats for Avro with a registry."""


def cloud_avro_options() -> tuple[Option, ...]:
    """Return the options of a format for Avro of Flink on Confluent Cloud, which reads enum and fixed."""
    of_avro = (
        option for option in AVRO_OPTIONS if option.name in ("schema", READ_ENUM_AND_FIXED, VARIANT_COLUMNS.name)
    )
    ours = [replace(option, doc=f"Ours. {option.doc.removeprefix('Ours. ')}") for option in of_avro]
    enums = "Ours. Whether an enum is read as STRING and a fixed as BYTES."
    return cloud_options(
        "<id>.avsc", *(replace(o, default=True, doc=enums) if o.name == READ_ENUM_AND_FIXED else o for o in ours)
    )


def avro_look_options(format: type[Format], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options with which ingestion looks at messages of a format for Avro.

    Enum and fixed are read too, because no table says which fields it needs. Raises `OptionError`.
    """
    (schema,) = (spec for spec in format.option_specs if spec.name == "schema")
    for key in schema.keys(options):
        raise OptionError(
            f"the option '{key}' sets one schema, but the columns of each table come from the schemas of its "
            "messages. Remove the option; a 'projection' in 'transform' selects columns",
            format=format.identifier,
            option=key,
        )
    return {READ_ENUM_AND_FIXED: "true", **options}
