"""Looks at Canal's messages, in which all values are texts: by the values, by `sqlType` or by `mysqlType`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvformat.codecs._kernel.tree import Node
from kvformat.codecs.changes.discover import (
    ChangeLayout,
    ChangeLooker,
    Declared,
    DeclaredBy,
    KernelShape,
    NotLookedAtError,
    Object,
    named_members,
    no_declared,
    value_rules,
)
from kvformat.codecs.discovery.declared_types import Ingested, jdbc_type, mysql_type
from kvformat.registry.contract.error_codes import ErrorCode, Reason
from kvformat.registry.contract.look import LookRequest
from kvformat.registry.contract.types import FlinkType

if TYPE_CHECKING:
    from kvformat.codecs.changes.format import JsonChangeFormat

STRATEGY = "infer-schema.strategy"
_AUTO, _BY_JDBC, _BY_MYSQL = "AUTO", "SQL_TYPE", "MYSQL_TYPE"
_LOCAL_TIMESTAMPS = "mysql.treat-mysql-timestamp-as-datetime-enabled"
_BOOLEAN_TINYINT = "mysql.treat-tinyint1-as-boolean.enabled"
_MEMBERS = {_BY_JDBC: "sqlType", _BY_MYSQL: "mysqlType"}
"""The member that has the types, by strategy."""


def canal_looker(format: JsonChangeFormat, request: LookRequest, *, latin: bool | None) -> ChangeLooker:
    """Return the looker of format canal-json. `latin` says how BYTES are read; see `ValueRules`."""
    strategy = request.options.get(STRATEGY, _AUTO)
    reading = Ingested(
        local_timestamps=bool(request.options.get(_LOCAL_TIMESTAMPS, True)),
        boolean_tinyint=bool(request.options.get(_BOOLEAN_TINYINT, True)),
    )
    declared: DeclaredBy = no_declared
    if strategy in _MEMBERS:
        to_type = jdbc_type if strategy == _BY_JDBC else mysql_type
        declared = _declared_by(_MEMBERS[strategy], strategy, lambda declared: to_type(declared, reading))
    layout = ChangeLayout(
        table=named_members("database", "table"),
        values=value_rules(format, request, texts=True, latin=latin),
        declared=declared,
        drops=frozenset(("ERASE",)),
        ddl="isDdl",
        shape=KernelShape(
            ("database", "table"),
            declared=_MEMBERS.get(strategy, ""),
            others=("es", "gtid", "id", "mysqlType", "sql", "sqlType", "ts"),
        ),
    )
    return ChangeLooker(format, format.envelope, request, layout)


def _declared_by(member: str, strategy: str, to_type: Callable[[Node], FlinkType]) -> DeclaredBy:
    """Return a function that takes the types of columns from a member of the envelope."""

    def declared(message: Object, envelope: Object) -> Declared:
        types = envelope.get(member)
        if not isinstance(types, dict):
            raise NotLookedAtError(
                Reason(
                    ErrorCode.MISSING_FIELD,
                    f"field '{member}': is missing or null, and '{STRATEGY}' is '{strategy}'. Set it to '{_AUTO}' for "
                    "messages without types",
                )
            )
        return {name: to_type(t) for name, t in types.items()}

    return declared
