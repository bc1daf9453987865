"""`avro-apicurio`: Avro messages with schemas in an Apicurio Registry.

    00  00 00 00 07  0e 02 04 61 62                `00`, the schema's id as four bytes, big-endian, and the datum
    00  00 00 00 00 00 00 00 07  0e 02 04 61 62    the same with an id of eight bytes
    0e 02 04 61 62                                 the datum alone, with the id in a header of the record

Reading finds all three. Writing puts the id before the datum. Everything else is as in `avro-confluent`.
Rules: Apicurio's serializers for Java (`AvroKafkaSerializer`, `AvroKafkaDeserializer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from kvformat.codecs.avro.registry_options import AVRO_OPTIONS
from kvformat.codecs.avro_confluent import AvroConfluentFormat
from kvformat.codecs.registries.apicurio_client import GROUP, USE_ID
from kvformat.codecs.registries.apicurio_frames import (
    APICURIO,
    APICURIO_LONG_ID,
    AUTO,
    CONTENT_ID,
    EIGHT,
    FOUR,
    GLOBAL_ID,
    ID_WIDTH,
    ApicurioFraming,
)
from kvformat.codecs.registries.format_registry import Registry
from kvformat.codecs.registries.framing import Framing
from kvformat.codecs.registry_formats.record_options import RECORD_OPTIONS
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.options import Option
from kvformat.registry.contract.samples import MessageSample, Recognition

_DOCS = {
    "url": "The URL of the registry's REST interface, `http://<host>/apis/registry/v3` or `/v2`; also `file:<folder>` "
    "(`<id>.avsc` files) and `mock://<scope>` (in memory).",
    "subject": "The id of the artifact that the schema is a version of. Required for writing.",
    "use-latest-version": "Whether writing uses the latest version of the artifact, and creates none. The table must "
    "fit it.",
    "bearer-auth.credentials-source": "`STATIC_TOKEN`.",
}


class ApicurioRegistry(Registry):
    """Apicurio's registry."""

    headers: ClassVar[Mapping[Part, HeaderNames]] = ApicurioFraming.headers
    client: ClassVar[str] = "apicurio"
    client_options: ClassVar[tuple[str, ...]] = (GROUP, USE_ID)

    @cached_property
    def framing(self) -> Framing:
        return ApicurioFraming(self._options[ID_WIDTH], self._options[USE_ID], self._format)


class AvroApicurioFormat(AvroConfluentFormat):
    """The `avro-apicurio` format."""

    identifier: ClassVar[str] = "avro-apicurio"
    registry_type: ClassVar[type[Registry]] = ApicurioRegistry
    option_specs: ClassVar[tuple[Option, ...]] = (
        *(
            replace(option, doc=_DOCS.get(option.name, option.doc.removeprefix("Ours. ")), fallback=())
            for option in AVRO_OPTIONS
            if option.name not in ("properties", "schema-id")
        ),
        Option(name="schema-id", type="long", doc="The schema id to write. The registry is then not asked for it."),
        Option(name=GROUP, default="default", doc="The group of the artifact that writing uses."),
        Option(
            name=USE_ID,
            type="enum",
            default=CONTENT_ID,
            allowed=(CONTENT_ID, GLOBAL_ID),
            doc="Which of the registry's ids stands before the datum. Apicurio 2 writes `globalId`, if nothing else is "
            "set. Headers say which id they have.",
        ),
        Option(
            name=ID_WIDTH,
            type="enum",
            default=AUTO,
            allowed=(AUTO, FOUR, EIGHT),
            doc="The number of bytes of ids before the datum. `auto` writes 4, as Apicurio 3, and reads 8 where the "
            "first four are zero.",
        ),
        *(replace(option, doc=_DOCS.get(option.name, option.doc.removeprefix("Ours. "))) for option in RECORD_OPTIONS),
    )

    @classmethod
    def recognize(cls, sample: MessageSample) -> Sequence[Recognition]:
        """Recognize ids in Apicurio's headers, and long ones. avro-confluent recognizes ids of four bytes."""
        from kvformat.codecs.discovery.message_kinds import indices_of
        from kvformat.codecs.registry_formats.recognize import options_with_url
        from kvformat.codecs.registry_formats.record_samples import split_by_type

        options = options_with_url(sample)
        in_header = f"have the id of a schema in the header {' or '.join(ApicurioFraming.id_headers(sample.part))}"
        long_id = "begin with 00 and the id of a schema in eight bytes, the frame of Apicurio 2"
        of_version_2 = {USE_ID: GLOBAL_ID, **options} if options else {}
        return [
            *split_by_type(sample, Recognition(indices_of(sample, APICURIO), 1.0, in_header, options), cls.identifier),
            *split_by_type(
                sample, Recognition(indices_of(sample, APICURIO_LONG_ID), 0.9, long_id, of_version_2), cls.identifier
            ),
        ]
