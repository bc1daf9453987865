"""A schema registry as formats use it: its settings, the subject of what is written, and the frame of its messages.

`Registry` is Confluent's, and that of registries with its interface. A format with another one names it by the class
attribute `registry_type`, and has it in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from kvformat.codecs.registries.cache import id_of_schema, latest_schema
from kvformat.codecs.registries.confluent_client import context_of
from kvformat.codecs.registries.confluent_frames import ConfluentFraming
from kvformat.codecs.registries.framing import Framing
from kvformat.codecs.registries.options import HEADER, ID_ENCODING, PROPERTIES, SCHEMA_CONTEXT, SUBJECT_NAMES
from kvformat.registry.contract.errors import OptionError, SchemaError
from kvformat.registry.contract.fork_safe import cached_property
from kvformat.registry.contract.format_hooks import HeaderNames, Part
from kvformat.registry.contract.options import Direction
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings


class Registry:
    """The registry of a format, by the format's options."""

    headers: ClassVar[Mapping[Part, HeaderNames]] = ConfluentFraming.headers
    """The headers of records that may have the schema's id."""
    client: ClassVar[str] = ""
    client_options: ClassVar[tuple[str, ...]] = ()
    """The entry point of the client of `http` and `https`, empty for Confluent's; options that the client gets."""
    subject_option: ClassVar[str] = "subject"
    register_option: ClassVar[str] = "auto-register-schemas"
    latest_option: ClassVar[str] = "use-latest-version"
    """The options for the subject of the written schema, to register it, and to use the latest one instead."""

    def __init__(self, options: Mapping[str, Any], format: str) -> None:
        self._options, self._format = options, format

    @classmethod
    def complete_options(cls, options: Mapping[str, Any], *, topic: str, part: Part) -> Mapping[str, Any]:
        """Return the options of a table's format, with the subject of its topic if none is given."""
        subjects = {"subject", "schema-registry.subject", SUBJECT_NAMES} & set(options)
        return options if subjects else {**options, "subject": f"{topic}-{part}"}

    @property
    def subject(self) -> str | None:
        """The subject that an option names."""
        names = self._options.get(SUBJECT_NAMES)
        subject: str | None = names[0] if names else self._options["subject"]
        return subject

    @cached_property
    def framing(self) -> Framing:
        """How messages say which schema they have."""
        return ConfluentFraming()

    @cached_property
    def settings(self) -> RegistrySettings:
        """The settings of the registry's client."""
        options, url = self._options, self._options["url"] or ""
        named = {name: options[option] for option, name in PROPERTIES.items() if options[option] is not None}
        named |= {name: options[name] for name in self.client_options}
        context = (options.get(SCHEMA_CONTEXT) or "").strip(":")
        if context:
            url = ",".join(f"{address.strip().rstrip('/')}/contexts/{context}" for address in url.split(","))
        settings = self.settings_with(url, {**(options.get("properties") or {}), **named})
        return replace(
            settings,
            client=self.client if url.lstrip().lower().startswith("http") else "",
            subject=self.subject if self.subject and context_of(self.subject) else "",
        )

    def settings_with(self, url: str, properties: Mapping[str, str | None]) -> RegistrySettings:
        """Return the settings of a client with a URL and properties, of which those that are None are left out."""
        options = self._options
        return RegistrySettings(
            url=url,
            properties=tuple(sorted((name, value) for name, value in properties.items() if value is not None)),
            timeout=options["registry-timeout"].total_seconds(),
            retries=max(options["registry-retries"], 0),
            backoff=options["registry-backoff"].total_seconds(),
            format=self._format.replace("debezium-", ""),
        )

    def check(self, direction: Direction, *, reads_schemas: bool, names_subject: bool) -> None:
        """Raise `OptionError` for options with which one direction is not possible.

        `reads_schemas` says whether reading asks for schemas, `names_subject` whether an option names the subject.
        """
        options, identifier = self._options, self._format
        names = options.get(SUBJECT_NAMES) or ()
        needs_url = reads_schemas if direction == "decode" else options["schema-id"] is None
        if needs_url and options["url"] is None:
            raise OptionError(
                f"option 'url' of format '{identifier}' is missing: set it to the URL of the schema registry",
                format=identifier,
                option="url",
            )
        if direction == "encode" and options.get(ID_ENCODING) == HEADER:
            raise OptionError(
                f"option '{ID_ENCODING}' = '{HEADER}' of format '{identifier}' is not supported for writing: ids "
                f"are written before the value. Leave '{ID_ENCODING}' out. Reading finds ids in both places",
                format=identifier,
                option=ID_ENCODING,
            )
        if len(names) > 1:
            raise OptionError(
                f"option '{SUBJECT_NAMES}' of format '{identifier}' has {len(names)} subjects: a table reads and "
                "writes records of one type. Give one subject",
                format=identifier,
                option=SUBJECT_NAMES,
            )
        if direction == "decode":
            self.settings.check_authentication()
        elif names_subject and self.subject is None:
            raise OptionError(
                f"Option {identifier}.subject is required for serialization", format=identifier, option="subject"
            )

    # --- the schema to write -------------------------------------------------------------------------------

    @property
    def writes_latest(self) -> bool:
        """Whether rows are written by the latest schema of the subject."""
        return bool(self._options[self.latest_option])

    def schema_to_write(
        self,
        subject: str | None,
        kind: str,
        own_schema: Callable[[], RegistrySchema],
        accepted: Callable[[RegistrySchema], RegistrySchema],
    ) -> tuple[int | str, RegistrySchema] | Refused:
        """Return the id to write and its schema, or the registry's refusal.

        `own_schema` returns the schema of the table. `accepted` returns the schema by which rows are written, given the
        latest one of the subject, and raises `SchemaError` if they can't be.
        """
        if self._options["schema-id"] is not None:
            return self._options["schema-id"], own_schema()
        if not subject:
            return Refused("the option 'subject' is empty")
        if self.writes_latest:
            return self._latest(subject, kind, accepted)
        schema, register = own_schema(), self._options[self.register_option]
        schema_id = id_of_schema(self.settings, subject, schema, register=register)
        if isinstance(schema_id, Refused):
            refused = "the schema registry refuses the schema" if register else "the schema is not registered"
            how = self._how_to_write(registers=register)
            return Refused(f"{refused} for subject {subject!r}: {schema_id.reason}. {how}. The schema: {schema.text}")
        return schema_id, schema

    def _how_to_write(self, *, registers: bool) -> str:
        """Return what to do if the registry refuses the schema of a table, or does not have it."""
        by_latest = f"set '{self.latest_option}' = 'true' to write by the latest registered schema"
        if registers:
            name = self.subject_option
            return f"Change the columns of the table, {by_latest}, or choose another subject with the option '{name}'"
        return f"Register it, set '{self.register_option}' = 'true', or {by_latest}"

    def _latest(
        self, subject: str, kind: str, accepted: Callable[[RegistrySchema], RegistrySchema]
    ) -> tuple[int | str, RegistrySchema] | Refused:
        latest = latest_schema(self.settings, subject)
        what = f"the schema of subject {subject!r}"
        registered = latest if isinstance(latest, Refused) else latest[1].of_kind(kind, what)
        if isinstance(latest, Refused) or isinstance(registered, Refused):
            assert isinstance(registered, Refused)
            return Refused(f"subject {subject!r} has no latest schema: {registered.reason}")
        try:
            return latest[0], accepted(registered)
        except SchemaError as bad:  # the message quotes the registry's answer
            reason = f"the table can't be written by the latest schema of subject {subject!r}, id {latest[0]}: {bad}"
            raise SchemaError(self.settings.scrubbed(reason), format=self._format, field=bad.field) from None
