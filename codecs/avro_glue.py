"""`avro-glue`: Avro messages with schemas in AWS Glue's schema registry.

    03  00  16 bytes  0e 02 04 61 62     `03`, the compression, the UUID of the schema's version, and the datum

When reading, the writer's schema is the version that each message names. Writing looks the schema up under
`schema.name`, or registers it, and writes the UUID of its version. Everything else is as in `avro-confluent`.
Rules: Flink's "AWS Glue Schema Registry Avro Format" (`GlueSchemaRegistryAvroFormatFactory`).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from kvformat.codecs.avro.registry_options import AVRO_OPTIONS
from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.codecs.registries.format_registry import Registry
from kvformat.codecs.registries.framing import Framing
from kvformat.codecs.registries.glue_client import COMPATIBILITY, ENDPOINT, REGION, REGISTRY
from kvformat.codecs.registries.glue_frames import GLUE, MAX_SIZE, GlueFraming, version_of
from kvformat.codecs.registry_formats.record_options import RECORD_OPTIONS, SUBJECT_STRATEGY, TOPIC
from kvformat.registry.contract.errors import OptionError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.options import Direction, Option
from kvformat.registry.contract.samples import MessageSample, Recognition, SchemaProposal
from kvformat.registry.contract.schema_registries import RegistrySettings

_MOST_VERSIONS = 3  # of schemas, in a description
_NAME, _COMPRESSION = "schema.name", "schema.compression"
_SHARED = {option.name: option for option in AVRO_OPTIONS}
_OF_SUBJECT = "`subject`, by default the topic with `-key` or `-value`"
_CACHE = "Accepted for Flink's tables: versions never change, so that they are kept for as long as there is room."


class GlueRegistry(Registry):
    """AWS Glue's registry."""

    headers: ClassVar[Mapping[Part, HeaderNames]] = GlueFraming.headers
    subject_option: ClassVar[str] = _NAME
    register_option: ClassVar[str] = "schema.autoRegistration"
    latest_option: ClassVar[str] = "schema.fetchFromRegistry"

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        return {TOPIC: topic, **options} if SUBJECT_STRATEGY in options else options

    @property
    def subject(self) -> str | None:
        """The name of the schema."""
        name: str | None = self._options[_NAME]
        return name

    @cached_property
    def framing(self) -> Framing:
        return GlueFraming(self._options[MAX_SIZE], compresses=self._options[_COMPRESSION] != "NONE")

    @cached_property
    def settings(self) -> RegistrySettings:
        options = self._options
        url = options["url"] or f"glue://{options[REGION] or ''}/{options[REGISTRY] or ''}"
        named = {name: options[name] for name in (REGION, ENDPOINT, REGISTRY, COMPATIBILITY)}
        return replace(self.settings_with(url, named), guids=True)

    def check(self, direction: Direction, *, reads_schemas: bool, names_subject: bool) -> None:
        options = self._options
        required = [] if options["url"] is not None else [REGION]
        if direction == "encode" and options["schema-id"] is None:
            required += [] if options["url"] is not None else [REGISTRY]
            required += [_NAME] if names_subject else []
        for name in required:
            if not options[name]:
                why = " for writing" if name in (REGISTRY, _NAME) else ""
                raise OptionError(
                    f"option '{name}' of format '{self._format}' is missing: it is required{why}",
                    format=self._format,
                    option=name,
                )
        try:
            uuid.UUID(options["schema-id"] or "0" * 32)
        except ValueError:
            raise OptionError(
                f"invalid value {options['schema-id']!r} for option 'schema-id' of format '{self._format}': "
                "expected a UUID, such as 7b9b4ea1-3f5e-4a37-a7d0-2b2f8e0d3c11",
                format=self._format,
                option="schema-id",
            ) from None


class AvroGlueFormat(AvroConfluentFormat):
    """The `avro-glue` format."""

    identifier: ClassVar[str] = "avro-glue"
    registry_type: ClassVar[type[Registry]] = GlueRegistry
    option_specs: ClassVar[tuple[Option, ...]] = (
        Option(name=REGION, doc="The region of AWS. Required, except with `url`."),
        Option(name=ENDPOINT, doc="The URL of another endpoint than the region's."),
        Option(name=REGISTRY, doc="The name of the registry. Required for writing."),
        Option(name=_NAME, doc="The name of the schema. Required for writing."),
        Option(
            name=GlueRegistry.register_option,
            type="boolean",
            default=False,
            doc="Whether writing registers the schema. Otherwise, it must already be registered.",
        ),
        Option(
            name=COMPATIBILITY,
            type="enum",
            default="BACKWARD",
            allowed=("NONE", "DISABLED", "BACKWARD", "BACKWARD_ALL", "FORWARD", "FORWARD_ALL", "FULL", "FULL_ALL"),
            doc="The compatibility of a schema that writing creates.",
        ),
        Option(
            name=_COMPRESSION,
            type="enum",
            default="NONE",
            allowed=("NONE", "ZLIB"),
            doc="Writing: how the datum is compressed. Reading finds it in the message.",
        ),
        Option(
            name="schema.type",
            type="enum",
            default="GENERIC_RECORD",
            allowed=("GENERIC_RECORD", "SPECIFIC_RECORD", "UNKNOWN"),
            doc="Accepted for Flink's tables: rows are generic records.",
        ),
        Option(
            name=GlueRegistry.latest_option,
            type="boolean",
            default=False,
            doc="Whether writing uses the latest version of the schema, and registers none. The table must fit it.",
        ),
        Option(name="cache.size", type="int", default=200, doc=_CACHE),
        Option(name="cache.ttlMs", type="long", default=86_400_000, doc=_CACHE),
        replace(_SHARED["schema"], doc=f"Ours. {_SHARED['schema'].doc}", fallback=()),
        *(_SHARED[name] for name in ("read-enum-and-fixed", "variant-columns", "on-new-schema")),
        Option(name="schema-id", doc="Ours. The UUID of the version to write. The registry is then not asked for it."),
        *(
            _SHARED[name]
            for name in ("register-in-executors", "registry-timeout", "registry-retries", "registry-backoff")
        ),
        Option(
            name=MAX_SIZE,
            type="memory",
            default=16 << 20,
            doc="Ours. The most bytes of a datum after decompression. A larger one is an error of its message.",
        ),
        Option(name="url", doc="Ours. Another place of the schemas than AWS: `file:<folder>` (`<uuid>.avsc` files)."),
        *(replace(option, doc=option.doc.replace(_OF_SUBJECT, f"`{_NAME}`")) for option in RECORD_OPTIONS),
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        """Recognize Glue's frame. Glue is not asked without a region: nothing says which account has the schemas."""
        from kvformat.codecs.discovery.message_kinds import indices_of
        from kvformat.codecs.registry_formats.record_samples import split_by_type

        indices = indices_of(sample, GLUE)
        versions = Counter(version_of(sample.values[index] or b"") for index in indices)
        shown = ", ".join(str(version) for version, _ in versions.most_common(_MOST_VERSIONS))
        more = ", ..." if len(versions) > _MOST_VERSIONS else ""
        description = f"begin with 03 and the UUID of a schema's version, AWS Glue's frame ({shown}{more})"
        url = str(sample.registry.get("url", ""))
        options = sample.registry if REGION in sample.registry else {"url": url} if url.startswith("file:") else {}
        return [*split_by_type(sample, Recognition(indices, 0.9, description, options), cls.identifier)]

    def propose_schema(self, sample: MessageSample) -> SchemaProposal:
        self.validate("decode")
        return super().propose_schema(sample)
