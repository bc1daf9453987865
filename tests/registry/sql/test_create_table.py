"""CREATE TABLE statements of Flink: supported syntax, and the positions in errors."""

from __future__ import annotations

import pytest

from kvformat.registry.contract.ddl import parse_schema, parse_type
from kvformat.registry.contract.errors import SchemaError
from kvformat.registry.sql.create_table import parse_create_table
from kvformat.registry.sql.table_definition import TableColumn, TableDefinition, Watermark, create_table_text
from tests.support import interop

_WITH = "WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json')"

# From the documentation of Flink and Ververica, with missing options added to their examples.
_DOCUMENTED = {
    "kafka": """
        CREATE TABLE KafkaTable (
          `event_time` TIMESTAMP_LTZ(3) METADATA FROM 'value.source.timestamp' VIRTUAL,  -- from Debezium format
          `origin_table` STRING METADATA FROM 'value.source.table' VIRTUAL, -- from Debezium format
          `partition_id` BIGINT METADATA FROM 'partition' VIRTUAL,  -- from Kafka connector
          `offset` BIGINT METADATA VIRTUAL,  -- from Kafka connector
          `user_id` BIGINT,
          `item_id` BIGINT,
          `behavior` STRING
        ) WITH (
          'connector' = 'kafka',
          'topic' = 'user_behavior',
          'properties.bootstrap.servers' = 'localhost:9092',
          'properties.group.id' = 'testGroup',
          'scan.startup.mode' = 'earliest-offset',
          'value.format' = 'debezium-json'
        );""",
    "security": """
        CREATE TABLE KafkaTable (
          `user_id` BIGINT,
          `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'
        ) WITH (
          'connector' = 'kafka',
          'properties.security.protocol' = 'SASL_SSL',
          /* SSL configurations */
          /* Configure the path of truststore (CA) provided by the server */
          'properties.ssl.truststore.location' = '/path/to/kafka.client.truststore.jks',
          'properties.sasl.jaas.config' = 'org.apache.kafka.ScramLoginModule username=\\"u\\" password=\\"p\\";'
        )""",
    "upsert": """
        CREATE TABLE pageviews_per_region (
          user_region STRING,
          pv BIGINT,
          uv BIGINT,
          PRIMARY KEY (user_region) NOT ENFORCED
        ) WITH (
          'connector' = 'upsert-kafka',
          'topic' = 'pageviews_per_region',
          'properties.bootstrap.servers' = '...',
          'key.format' = 'avro',
          'value.format' = 'avro'
        );""",
    "watermark": """
        CREATE TABLE pageviews (
          user_id BIGINT,
          viewtime TIMESTAMP,
          proctime AS PROCTIME(),
          WATERMARK FOR viewtime AS viewtime - INTERVAL '2' SECOND
        ) WITH ('connector' = 'kafka', 'topic' = 'pageviews', 'format' = 'avro')""",
    "prefixes": """
        CREATE TEMPORARY TABLE kafkaTable (
          `key_id` INT NOT NULL,
          `val_name` VARCHAR(200)
        ) WITH (
          'connector' = 'kafka',
          'key.format' = 'json',
          'value.format' = 'json',
          'key.fields' = 'key_id',
          'key.fields-prefix' = 'key_',
          'value.fields-prefix' = 'val_',
          'value.fields-include' = 'EXCEPT_KEY'
        );""",
    "computed": """
        CREATE TEMPORARY TABLE kafkaTable (
          `distinct_id` INT NOT NULL,
          `properties` STRING,
          `timestamp` TIMESTAMP_LTZ METADATA,
          `date` AS CAST(`timestamp` AS DATE)
        ) WITH ('connector' = 'kafka', 'format' = 'json');""",
    "rows": """
        CREATE TEMPORARY TABLE kafka_source (
          id          VARCHAR,
          `name`      VARCHAR,
          properties  ROW<`owner` STRING, engine STRING>
        ) WITH ('connector' = 'kafka', 'topic' = 'xxx', 'format' = 'json');""",
    "one line": "CREATE TABLE upsertKafkaSource ( order_id string, d double, PRIMARY KEY(order_id) NOT ENFORCED ) "
    "WITH ( 'connector' = 'upsert-kafka', 'key.format' = 'csv', 'value.format' = 'json' );",
    "repeated": "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'scan.startup.mode' = 'earliest-offset', "
    "'scan.startup.mode' = 'latest-offset')",
}


@pytest.mark.parametrize("name", [*_DOCUMENTED, *(f"interop {name}" for name in interop.cases())])
def test_tables_of_documentation_and_flink_are_parsed(name: str) -> None:
    ddl = _DOCUMENTED[name] if name in _DOCUMENTED else interop.cases()[name.removeprefix("interop ")]["ddl"]
    table = parse_create_table(ddl)
    assert "connector" in table.options
    assert parse_create_table(create_table_text(table, table.options)) == table


def test_a_statement_with_all_clauses_is_parsed() -> None:
    table = parse_create_table("""
        /* a table */ create or replace temporary table if not exists `my cat`.db.`t``1` ( -- of
            `a` int not null comment 'it''s, a) comment',
            b varchar(3) METADATA,  // another kind of comment
            `c d` ROW<`x` INT NOT NULL, y ARRAY<STRING>> NULL,
            m MULTISET<STRING>, t TIME, iv INTERVAL DAY TO SECOND(3),
            e AS a + 1 COMMENT 'computed', f AS UPPER(`c d`.y[1] || b), g AS CAST(b AS TIMESTAMP(3)) ,
            CONSTRAINT pk PRIMARY KEY (a, m) NOT ENFORCED,
            ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS (ts - INTERVAL '1:30' MINUTE TO SECOND)
        ) COMMENT 'c' PARTITIONED BY (a, t) WITH (
            'k' = 'v -- no comment', 'quote''d' = '', 'k' = 'last /* wins */'
        ) ;
    """)
    assert table.name == "my cat.db.t`1"
    assert parse_create_table(create_table_text(table, table.options)) == table
    assert [(column.name, column.kind, str(column.type)) for column in table.columns] == [
        ("a", "physical", "INT NOT NULL"),
        ("b", "metadata", "VARCHAR(3)"),
        ("c d", "physical", "ROW<`x` INT NOT NULL, `y` ARRAY<STRING>>"),
        ("m", "physical", "MULTISET<STRING> NOT NULL"),
        ("t", "physical", "TIME(0)"),
        ("iv", "physical", "INTERVAL DAY TO SECOND"),
        ("e", "computed", "INT"),
        ("f", "computed", "STRING"),
        ("g", "computed", "TIMESTAMP(3)"),
        ("ts", "physical", "TIMESTAMP_LTZ(3)"),
    ]
    assert [column.source for column in table.columns if column.kind == "computed"] == [
        "a + 1",
        "UPPER(`c d`.y[1] || b)",
        "CAST(b AS TIMESTAMP(3))",
    ]
    assert table.options == {"k": "last /* wins */", "quote'd": ""}
    assert table.primary_key == ("a", "m")
    assert table.watermark == Watermark("ts", 90_000)
    assert table.partition_keys == ("a", "t")


def _computed(source: str, type_: str) -> TableColumn:
    return TableColumn("x", "computed", parse_type(type_), source=source)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("x INT METADATA FROM 'offset' VIRTUAL", TableColumn("x", "metadata", parse_type("INT"), "offset", True)),
        ("x INT METADATA VIRTUAL COMMENT 'c'", TableColumn("x", "metadata", parse_type("INT"), "x", True)),
        ("x INT METADATA", TableColumn("x", "metadata", parse_type("INT"), "x", False)),
        ("x AS CAST(NULL AS ROW<a INT>)", _computed("CAST(NULL AS ROW < a INT >)", "ROW<a INT>")),
        ("x AS  s -- comment\n || /* and */ 'y'", _computed("s || 'y'", "STRING")),
    ],
)
def test_columns(text: str, column: TableColumn) -> None:
    assert parse_create_table(f"CREATE TABLE t ({text}, s STRING) {_WITH}").columns[0] == column


def test_a_primary_key_can_follow_its_column() -> None:
    table = parse_create_table(f"CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT) {_WITH}")
    assert table.primary_key == ("a",)
    assert str(table.columns[0].type) == "INT NOT NULL"


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("DROP TABLE t", "expected 'CREATE', found 'DROP', at line 1, column 1"),
        ("CREATE TABLE t (\n  a INTT\n)", "unknown type 'INTT'.*Did you mean|unknown type 'INTT'.*line 2, column 5"),
        ("CREATE TABLE t (\n  a INT,\n  a STRING)", "two columns named 'a', at line 3, column 3"),
        ("CREATE TABLE t (\n  a INT,\n)", "expected a column name, found '\\)', at line 3, column 1"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED)", "column 'b' of the PRIMARY KEY does not exist.*37"),
        ("CREATE TABLE t (a INT METADATA, PRIMARY KEY (a) NOT ENFORCED)", "not a physical column"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", "must be NOT ENFORCED, because.* at line 1, column 39"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a) NOT ENFORCED)", "in the PRIMARY KEY twice"),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED)", "has a PRIMARY KEY already"),
        ("CREATE TABLE t (a INT, WATERMARK FOR b AS b)", "column 'b' of the WATERMARK does not exist"),
        ("CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS a,\n WATERMARK FOR a AS a - INTERVAL '1' DAY)",
         "the table has a WATERMARK already, at line 2, column 2"),
        ("CREATE TABLE t (a INT,\n WATERMARK FOR a AS a)", "'a' of the WATERMARK is INT, but must.*line 2, column 16"),
        ("CREATE TABLE t (a ROW<b DATE>, WATERMARK FOR a.b AS a.b)", "not a field of 'a', at line 1, column 46"),
        ("CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS (a - INTERVAL '1' DAY, b INT)", "expected '\\)', found ','"),
        ("CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS b)", "'b' can't be in the WATERMARK of 'a'"),
        ("CREATE TABLE t (a INT METADATA FROM 'offset',\n b INT METADATA FROM 'offset')",
         "columns 'a' and 'b' have the same metadata key 'offset', at line 2, column 2"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a, b)", "'b' of PARTITIONED BY does not exist, at line 1, column 43"),
        ("CREATE TABLE t (a INT) WITH (k = 'v')", "expected an option in single quotes.*column 30"),
        ("CREATE TABLE t (a INT) WITH ('k' 'v')", "expected '=' after an option, at line 1, column 34"),
        ("CREATE TABLE t (a INT) WITH ('format' 'v')", "expected '=' after option 'format', at line 1, column 39"),
        ("CREATE TABLE t (a INT) WITH ('k' = 'v", "the quote is not closed, at line 1, column 36"),
        ("CREATE TABLE t (a INT) /*+ x */", "a hint is not allowed here.*line 1, column 24"),
        ("CREATE TABLE t (a INT) WITH ('k' = 1)", "expected the value of an option"),
        ("CREATE TABLE t (a INT /* x)", "the comment is not closed, at line 1, column 23"),
        ("CREATE TABLE t (a INT); CREATE TABLE u (b INT)", "expected the end of the statement.*line 1, column 25"),
        ("CREATE TABLE t (a INT) WITH ('k' = 'v') AS SELECT 1", "AS takes its columns from a query"),
        ("CREATE TABLE t (a INT) AS TABLE u", "TABLE follows another table: run it with 'kvformat ingest FILE.sql'"),
        ("CREATE TABLE t (a INT) LIKE u", "LIKE needs the CREATE TABLE of its base"),
        ("CREATE TABLE t (a AS ) WITH ('k' = 'v')", "expected the expression of column 'a'"),
        ("CREATE TABLE t (a INT METADATA FROM offset)", "expected a metadata key in single quotes"),
    ],
)  # fmt: skip
def test_errors_point_at_line_and_column(ddl: str, message: str) -> None:
    with pytest.raises(SchemaError, match=rf"(?s)cannot read the CREATE TABLE: .*{message}"):
        parse_create_table(ddl)


@pytest.mark.parametrize(
    "options", ["'password' 'hunter2'", "'password' = hunter2", "'password' = 'hunter2", "'password' = 'x' N'hunter2'"]
)
def test_errors_do_not_show_the_values_of_options(options: str) -> None:
    with pytest.raises(SchemaError, match="line 1, column") as caught:
        parse_create_table(f"CREATE TABLE t (a INT) WITH ({options})")
    assert "hunter2" not in str(caught.value)


def test_an_error_before_the_options_does_not_quote_them() -> None:
    for columns in ("a INTT", "a INT, a INT", "a INT METADATA FROM a", "PRIMARY KEY (b) NOT ENFORCED, a INT"):
        with pytest.raises(SchemaError, match="⟨here⟩") as caught:
            parse_create_table(f"CREATE TABLE t ({columns}) WITH ('password'='hunter2')")
        assert "hunter" not in str(caught.value)
    refused = parse_create_table("CREATE TABLE t (a AS nope) WITH ('password'='hunter2')").columns[0].refused
    assert "'nope': not a physical" in refused
    assert "hunter" not in refused


@pytest.mark.parametrize(
    "option", ["'password' = 'hunter2'", "'topic' = 'hunter2'", "'a.b' = 'hunter2'", 'x = "hunter2"']
)
def test_an_error_does_not_quote_options_whose_with_is_missing(option: str) -> None:
    with pytest.raises(SchemaError, match="at line 1, column") as caught:
        parse_create_table(f"CREATE TABLE t (a INTT, {option})")
    assert "hunter" not in str(caught.value)


def test_the_time_zone_of_a_type_does_not_begin_the_options() -> None:
    with pytest.raises(SchemaError, match="⟨here⟩ INTT"):
        parse_create_table("CREATE TABLE t (a TIMESTAMP(3) WITH LOCAL TIME ZONE, b TIME WITHOUT TIME ZONE, c INTT)")


def test_options_may_be_empty_as_in_flink() -> None:
    assert parse_create_table("CREATE TABLE t (a INT) WITH ()").options == {}


@pytest.mark.parametrize(
    "text", ["\x01", "a\nb", "\x00\\'\"", "\x7f\x85", "it's \\0041", "\u2028", "\U0001f600\t", "中\r"]
)
def test_control_characters_survive_the_text_of_a_table(text: str) -> None:
    column = TableColumn(f"c{text}", "metadata", parse_type("INT"), f"k{text}", virtual=True)
    options = {"connector": "kafka", "k": text, f"q{text}": text * 2}
    table = TableDefinition(f"t{text}", (column,), options, partition_keys=(column.name,))
    written = create_table_text(table, options)
    assert parse_create_table(written) == table
    assert written.isprintable()


def test_time_has_milliseconds_as_flink_plans_it() -> None:
    table = parse_create_table(f"CREATE TABLE t (a TIME(6), b ROW<c TIME(9)>, d TIME, e AS CAST(a AS TIME(6))) {_WITH}")
    assert [str(column.type) for column in table.columns[:3]] == ["TIME(3)", "ROW<`c` TIME(3)>", "TIME(0)"]
    assert str(table.columns[3].type) == "TIME(3)"


@pytest.mark.parametrize("place", ["{} INT", "a ROW<{} INT>", "a INT, PRIMARY KEY ({}) NOT ENFORCED", "x AS r.{}"])
@pytest.mark.parametrize("word", ["at", "VALUE", "user", "Timestamp", "offset", "day", "count"])
def test_reserved_words_need_backticks_as_in_flink(word: str, place: str) -> None:
    ddl = f"CREATE TABLE t (r ROW<`{word}` INT>, {place}{', `' + word + '` INT' if 'KEY' in place else ''}) {_WITH}"
    if place == "x AS r.{}":
        assert f"'{word}' is a reserved word" in parse_create_table(ddl.format(word)).columns[1].refused
    else:
        with pytest.raises(
            SchemaError, match=f"'{word}' is a reserved word: to use it as a name, put it in backticks, at line 1"
        ):
            parse_create_table(ddl.format(word))
    assert parse_create_table(ddl.format(f"`{word}`")).columns[1].refused == ""


def test_non_reserved_words_need_no_backticks() -> None:
    words = [
        "name",
        "type",
        "data",
        "key",
        "source",
        "state",
        "zone",
        "level",
        "role",
        "metadata",
        "options",
        "week",
        "json",
    ]
    table = parse_create_table(f"CREATE TABLE version ({', '.join(f'{word} INT' for word in words)}) {_WITH}")
    assert [column.name for column in table.columns] == words
    assert parse_schema("at INT, value INT, r ROW<user INT>").fields[0].name == "at"


def test_comments_in_a_column_list() -> None:
    assert parse_schema("a INT, -- first\n/* no b */ c STRING // last") == parse_schema("a INT, c STRING")
