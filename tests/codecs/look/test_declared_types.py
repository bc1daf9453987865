"""Types that messages declare for their columns: names of MySQL, numbers of JDBC, and which type holds another."""

from __future__ import annotations

import pytest

from kvformat.codecs.discovery.declared_types import AS_FLINK_READS, Ingested, jdbc_type, mysql_type, wider
from kvformat.registry.contract.ddl import parse_type

_BOTH = {
    "tinyint(4)": "TINYINT",
    "tinyint unsigned": "SMALLINT",
    "tinyint(1) unsigned": "SMALLINT",
    "tinyint(3) zerofill": "SMALLINT",
    "smallint(6)": "SMALLINT",
    "smallint(5) unsigned": "INT",
    "mediumint(9)": "INT",
    "mediumint(8) unsigned": "INT",
    "int(11)": "INT",
    "INT": "INT",
    "int(10) unsigned": "BIGINT",
    "int(10) ZEROFILL": "BIGINT",
    "integer": "INT",
    "integer unsigned": "BIGINT",
    "bigint(20)": "BIGINT",
    "bigint(20) unsigned": "DECIMAL(20, 0)",
    "bigint(20) unsigned zerofill": "DECIMAL(20, 0)",
    "bigint zerofill": "DECIMAL(20, 0)",
    "year": "INT",
    "year(4)": "INT",
    "decimal": "DECIMAL(10, 0)",
    "decimal(5)": "DECIMAL(5, 0)",
    "decimal(5,5)": "DECIMAL(5, 5)",
    "decimal(38, 30)": "DECIMAL(38, 30)",
    "decimal(39,0)": "STRING",
    "decimal(2,3)": "STRING",
    " Int (11) unsigned": "BIGINT",
    "decimal ( 5 , 2 )": "DECIMAL(5, 2)",
    "numeric(10,2) unsigned": "DECIMAL(10, 2)",
    "dec(3,1)": "DECIMAL(3, 1)",
    "float": "FLOAT",
    "float(7,3)": "FLOAT",
    "double(10,2) unsigned": "DOUBLE",
    "real": "DOUBLE",
    "date": "DATE",
    "datetime": "TIMESTAMP(0)",
    "datetime(3)": "TIMESTAMP(3)",
    "datetime(6)": "TIMESTAMP(6)",
    "datetime(7)": "TIMESTAMP(6)",
    "timestamp(3)": "TIMESTAMP(3)",
    "time": "TIME(0)",
    "time(3)": "TIME(3)",
    "text": "STRING",
    "enum('a','b')": "STRING",
    "json": "STRING",
    "": "STRING",
    "(5)": "STRING",
}
"""Types of MySQL that mean the same for ingestion and in a proposed table."""
_INGESTION = {
    "tinyint(1)": "BOOLEAN",
    "time(6)": "TIME(3)",
    "bit": "BOOLEAN",
    "bit(1)": "BOOLEAN",
    "bit(2)": "BINARY(1)",
    "bit(8)": "BINARY(1)",
    "bit(9)": "BINARY(2)",
    "char(3)": "CHAR(3)",
    "varchar(16383)": "VARCHAR(16383)",
    "char": "STRING",
    "binary(16)": "BYTES",
    "varbinary(255)": "BYTES",
    "longblob": "BYTES",
}
_PROPOSED = {
    "tinyint(1)": "TINYINT",
    "time(6)": "STRING",
    "bit(1)": "STRING",
    "varchar(20)": "STRING",
    "blob": "STRING",
}


@pytest.mark.parametrize(("text", "expected"), [*_BOTH.items(), *_INGESTION.items()])
def test_types_of_mysql_for_ingestion(text: str, expected: str) -> None:
    assert str(mysql_type(text, Ingested())) == expected


@pytest.mark.parametrize(
    ("text", "local", "boolean", "expected"),
    [
        ("timestamp(3)", False, True, "TIMESTAMP_LTZ(3)"),
        ("timestamp(7)", False, True, "TIMESTAMP_LTZ(6)"),
        ("datetime(3)", False, True, "TIMESTAMP(3)"),
        ("tinyint(1)", True, False, "TINYINT"),
        ("tinyint(1) unsigned", True, True, "SMALLINT"),
    ],
)
def test_options_choose_the_types_of_timestamp_and_tinyint(
    text: str, local: bool, boolean: bool, expected: str
) -> None:
    assert str(mysql_type(text, Ingested(local, boolean))) == expected


@pytest.mark.parametrize(("text", "expected"), [*_BOTH.items(), *_PROPOSED.items()])
def test_types_of_mysql_in_a_proposed_table(text: str, expected: str) -> None:
    assert str(mysql_type(text, AS_FLINK_READS)) == expected


@pytest.mark.parametrize(
    ("number", "ingestion", "proposed"),
    [
        (-7, "BOOLEAN", "TINYINT"),
        (16, "BOOLEAN", "BOOLEAN"),
        (-6, "TINYINT", "TINYINT"),
        (5, "SMALLINT", "SMALLINT"),
        (4, "INT", "INT"),
        (-5, "BIGINT", "BIGINT"),
        (2, "DECIMAL(38, 18)", "STRING"),
        (3, "DECIMAL(38, 18)", "STRING"),
        (6, "FLOAT", "DOUBLE"),
        (7, "FLOAT", "FLOAT"),
        (8, "DOUBLE", "DOUBLE"),
        (-2, "BYTES", "STRING"),
        (-3, "BYTES", "STRING"),
        (-4, "BYTES", "STRING"),
        (2004, "BYTES", "STRING"),
        (91, "DATE", "DATE"),
        (92, "TIME(3)", "TIME(3)"),
        (93, "TIMESTAMP(6)", "TIMESTAMP(6)"),
        (12, "STRING", "STRING"),
        (999999, "STRING", "STRING"),
    ],
)
def test_types_of_jdbc(number: int, ingestion: str, proposed: str) -> None:
    assert str(jdbc_type(str(number), Ingested())) == ingestion
    assert str(jdbc_type(str(number), AS_FLINK_READS)) == proposed


def test_the_next_wider_integer_type_holds_unsigned_numbers() -> None:
    names = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(20, 0)")
    assert [str(wider(parse_type(name))) for name in names] == [*names[1:], "None"]
