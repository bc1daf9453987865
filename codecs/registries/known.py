"""The schema registries of this library: the client of each, and the frames of its messages.

A new registry is one line here. Clients, discovery and `inspect_topic` follow from it: its scheme opens the client, and
messages in its frames are told from others, with the ids of their schemas. Clients of other packages have entry points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kvformat.codecs.registries.apicurio_frames import AUTO, CONTENT_ID, ApicurioFraming
from kvformat.codecs.registries.confluent_frames import ConfluentFraming, is_frame, is_protobuf_frame
from kvformat.codecs.registries.framing import Framing
from kvformat.codecs.registries.glue_frames import GlueFraming


@dataclass(frozen=True, slots=True)
class KnownRegistry:
    """A kind of schema registry.

    client: the entry point of the client.
    schemes: those of its URLs, or the name that `RegistrySettings.client` has.
    framing: finds the ids of any of its messages; None if the messages have the frames of another registry.
    """

    client: str
    schemes: tuple[str, ...]
    framing: Framing | None = None


_ANY_CONFLUENT = ConfluentFraming(lambda header: is_frame(header) or is_protobuf_frame(header))
_ANY_APICURIO = ApicurioFraming(AUTO, CONTENT_ID, "avro-apicurio")
REGISTRIES: Final = (
    KnownRegistry("confluent_client:Confluent", ("http", "https", "mock"), _ANY_CONFLUENT),
    KnownRegistry("registry:Folder", ("file",)),
    KnownRegistry("glue_client:Glue", ("glue",), GlueFraming(0, compresses=False)),
    KnownRegistry("apicurio_client:Apicurio", ("apicurio",), _ANY_APICURIO),
)
"""The registries. A message belongs to the first one with a frame that it begins with."""
CLIENTS: Final[Mapping[str, str]] = {
    scheme: f"{__package__}.{known.client}" for known in REGISTRIES for scheme in known.schemes
}
"""The entry points of the clients by scheme."""
FRAMINGS: Final = tuple(known.framing for known in REGISTRIES if known.framing is not None)


def kind_of_frame(message: bytes, *, in_header: bool = False) -> str:
    """Return the kind of a message by its frame, "" for other messages; see `Framing.kind_of`."""
    kinds = (framing.kind_of(message, in_header=in_header) for framing in FRAMINGS)
    return next(filter(None, kinds), "")
