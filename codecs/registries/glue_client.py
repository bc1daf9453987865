"""AWS Glue's schema registry, accessed with boto3.

The credentials are those that boto3 finds: in the environment, in a profile, or of the machine's role.
Rules: `AWSSchemaRegistryClient` of AWS's library for Java.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kvformat.registry.contract.errors import MissingExtraError
from kvformat.registry.contract.schema_registries import Refused, RegistrySchema, RegistrySettings, SchemaRegistry

_T = TypeVar("_T")
_NOT_FOUND = "EntityNotFoundException"
_REFUSALS = (_NOT_FOUND, "InvalidInputException", "ResourceNumberLimitExceededException")
_TRANSIENT = ("ThrottlingException", "TooManyRequestsException", "RequestTimeout", "OperationTimeoutException")
_AVAILABLE, _PENDING = "AVAILABLE", "PENDING"
_LONGEST_WAIT = 2.0  # seconds before a new version is asked for again; its schema is compared with earlier ones
REGION, ENDPOINT, REGISTRY, COMPATIBILITY = "aws.region", "aws.endpoint", "registry.name", "schema.compatibility"
"""Names of the settings' properties."""


class Glue(SchemaRegistry):
    """A registry of AWS Glue. An id is the UUID of a schema's version, and a subject is a schema's name."""

    def __init__(self, settings: RegistrySettings) -> None:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError
        except ImportError as cause:
            raise MissingExtraError(
                f"format '{settings.format}' needs boto3", extra="glue", format=settings.format
            ) from cause
        properties = dict(settings.properties)
        self._timeout, self._error_class, self._other_errors = settings.timeout, ClientError, BotoCoreError
        self._network_errors = (ConnectionError, HTTPClientError)
        self._registry, self._compatibility = properties.get(REGISTRY, ""), properties.get(COMPATIBILITY, "BACKWARD")
        self._session = boto3.session.Session()
        self._client = self._session.client(
            "glue",
            region_name=properties.get(REGION),
            endpoint_url=properties.get(ENDPOINT),
            # the caller retries itself, and its timeout is the one that counts
            config=Config(
                connect_timeout=settings.timeout + 1,
                read_timeout=settings.timeout + 1,
                retries={"total_max_attempts": 1},
                max_pool_connections=16,
            ),
        )

    def schema(self, schema_id: int | str) -> RegistrySchema | Refused:
        return self._answer(lambda: _schema(self._client.get_schema_version(SchemaVersionId=str(schema_id))))

    def register(self, subject: str, schema: RegistrySchema) -> str | Refused:
        known = self.lookup(subject, schema)
        return self._answer(lambda: self._registered(subject, schema)) if isinstance(known, Refused) else known

    def lookup(self, subject: str, schema: RegistrySchema) -> str | Refused:
        def call() -> str | Refused:
            version = self._client.get_schema_by_definition(SchemaId=self._name(subject), SchemaDefinition=schema.text)
            return self._available(version)

        return self._answer(call)

    def latest(self, subject: str) -> tuple[str, RegistrySchema] | Refused:
        return self._version(subject, {"LatestVersion": True})

    def version(self, subject: str, version: int) -> tuple[str, RegistrySchema] | Refused:
        return self._version(subject, {"VersionNumber": version})

    def is_transient(self, error: Exception) -> bool:
        if isinstance(error, self._error_class):
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return status >= 500 or _code(error) in _TRANSIENT
        if isinstance(error, self._other_errors):  # most are about credentials or settings
            return isinstance(error, self._network_errors)
        return super().is_transient(error)

    def secrets(self) -> Iterable[str]:
        try:
            credentials = self._session.get_credentials()
            frozen = None if credentials is None else credentials.get_frozen_credentials()
        except self._other_errors:  # so that no request has any
            frozen = None
        return [] if frozen is None else [text for text in (frozen.secret_key, frozen.token) if text]

    def _name(self, subject: str) -> dict[str, str]:
        return {"RegistryName": self._registry, "SchemaName": subject}

    def _version(self, subject: str, number: dict[str, Any]) -> tuple[str, RegistrySchema] | Refused:
        def call() -> tuple[str, RegistrySchema]:
            version = self._client.get_schema_version(SchemaId=self._name(subject), SchemaVersionNumber=number)
            return _version_id(version), _schema(version)

        return self._answer(call)

    def _registered(self, subject: str, schema: RegistrySchema) -> str | Refused:
        """Register a version of a schema, which is created if it is new."""
        try:
            return self._new_version(subject, schema)
        except self._error_class as error:
            if _code(error) != _NOT_FOUND:
                raise
        try:
            created = self._client.create_schema(
                RegistryId={"RegistryName": self._registry},
                SchemaName=subject,
                DataFormat=schema.kind,
                Compatibility=self._compatibility,
                SchemaDefinition=schema.text,
            )
        except self._error_class as error:
            if _code(error) != "AlreadyExistsException":  # another process has created it in between
                raise
            return self._new_version(subject, schema)
        return self._available({"Status": created.get("SchemaVersionStatus"), **created})

    def _new_version(self, subject: str, schema: RegistrySchema) -> str | Refused:
        version = self._client.register_schema_version(SchemaId=self._name(subject), SchemaDefinition=schema.text)
        return self._available(version)

    def _available(self, answer: Any) -> str | Refused:
        """Return the id of a version when Glue has compared it with earlier ones; a refusal if it does not fit."""
        version, status = _version_id(answer), answer["Status"]
        deadline, wait = time.monotonic() + self._timeout, 0.1
        while status == _PENDING and time.monotonic() < deadline:
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
            status = self._client.get_schema_version(SchemaVersionId=version)["Status"]
        if status == _AVAILABLE:
            return version
        return Refused(
            f"the schema's version {version} has the status {status}, not {_AVAILABLE}. A new version has the status "
            "FAILURE if it is not compatible with earlier ones"
        )

    def _answer(self, call: Callable[[], _T | Refused]) -> _T | Refused:
        """Return the result of a call, or the registry's refusal."""
        try:
            return call()
        except self._error_class as error:
            if _code(error) in _REFUSALS:
                return Refused(str(error))
            raise


def _schema(answer: Any) -> RegistrySchema:
    kind, text = answer["DataFormat"], answer["SchemaDefinition"]
    if not isinstance(kind, str) or not isinstance(text, str):
        raise ValueError("the answer has no schema")
    return RegistrySchema(kind, text)


def _version_id(answer: Any) -> str:
    return str(uuid.UUID(answer["SchemaVersionId"]))


def _code(error: Any) -> str:
    code: str = error.response.get("Error", {}).get("Code", "")
    return code
