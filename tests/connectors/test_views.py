"""Kafka tables of a file of Flink SQL as temporary views: names, queries, choices, refusals, and what INSERT says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvformat.connectors import KafkaTable, register_tables
from kvformat.registry.contract.errors import (
    BrokerError,
    ConfigurationError,
    KafkaSourceWarning,
    MissingExtraError,
    OptionError,
    SchemaError,
)

on_kafka = [pytest.mark.spark, pytest.mark.services]
_BROKERS = "'properties.bootstrap.servers' = '{bootstrap}'"
_EARLIEST = "'scan.startup.mode' = 'earliest-offset'"


def _text(bootstrap: str = "b:9092", prefix: str = "") -> str:
    """Return a file of a shop: two tables of Kafka, of which one is upsert, and a table of another connector."""
    return f"""
        SET 'parallelism.default' = '2';
        CREATE TABLE orders (
          id BIGINT, customer INT, price DECIMAL(10, 2), doubled AS price * 2,
          place BIGINT METADATA FROM 'offset' VIRTUAL
        ) WITH ('connector' = 'kafka', 'topic' = '{prefix}orders', {_BROKERS.format(bootstrap=bootstrap)},
          {_EARLIEST}, 'format' = 'json');
        CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
          'connector' = 'upsert-kafka', 'topic' = '{prefix}customers', {_BROKERS.format(bootstrap=bootstrap)},
          'key.format' = 'json', 'value.format' = 'json');
        CREATE TABLE console (id BIGINT) WITH ('connector' = 'print');
        INSERT INTO console SELECT id FROM orders;
    """


def _table(name: str, **options: str) -> str:
    given = {"connector": "kafka", "topic": "t", "format": "json", "scan.startup.mode": "earliest-offset", **options}
    given |= {"properties.bootstrap.servers": "127.0.0.1:1"}
    with_ = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE {name} (id INT) WITH ({with_});"


@pytest.fixture
def views(spark: Any) -> Iterator[None]:
    """Remove the views that other tests left, and those of the test."""
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")  # without code, Spark can't list tables
    _drop_views(spark)
    yield
    _drop_views(spark)
    spark.conf.unset("spark.sql.codegen.factoryMode")


def _drop_views(spark: Any) -> None:
    for name in _names(spark):
        spark.catalog.dropTempView(name)


def _names(spark: Any) -> set[str]:
    return {table.name for table in spark.catalog.listTables() if table.isTemporary}


@pytest.fixture(scope="module")
def shop(broker: Any) -> str:
    broker.send(
        broker.create("views-orders"),
        [(None, b'{"id":%d,"customer":%d,"price":1.5}' % (n, n % 2)) for n in range(10)],
    )
    customers = [(b'{"id":0}', b'{"id":0,"name":"Al"}'), (b'{"id":1}', b'{"id":1,"name":"Bo"}'), (b'{"id":1}', None)]
    broker.send(broker.create("views-customers"), [*customers, (b'{"id":0}', b'{"id":0,"name":"Ada"}')])
    return _text(broker.bootstrap, "views-")


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.usefixtures("views")
def test_tables_are_queried_in_sql(spark: Any, broker: Any, shop: str) -> None:
    with pytest.warns(KafkaSourceWarning, match=r"not of Kafka: console \(connector 'print'\)") as warned:
        tables = register_tables(spark, shop)
    assert [Path(warning.filename) for warning in warned] == [Path(__file__)]
    assert list(tables) == ["orders", "customers"]
    assert tables["orders"] == KafkaTable.from_ddl(shop, table="orders")
    assert _names(spark) == {"orders", "customers"}
    rows = spark.sql(
        "SELECT name, sum(doubled) AS total, count(*) AS n "
        "FROM orders o JOIN customers c ON o.customer = c.id GROUP BY name"
    )
    assert [(row.name, float(row.total), row.n) for row in rows.collect()] == [("Ada", 15.0, 5)]
    assert spark.table("orders").columns == ["id", "customer", "price", "doubled", "place"]

    broker.send("views-orders", [(None, b'{"id":10,"customer":0,"price":1}')])
    broker.send("views-customers", [(b'{"id":1}', b'{"id":1,"name":"Bea"}')])
    assert spark.sql("SELECT max(id) AS id FROM ORDERS").first().id == 10, "a query reads to the newest record"
    assert rows.count() == 2, "also a query that was made before"


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.usefixtures("views")
def test_rows_are_written_by_the_returned_tables(spark: Any, broker: Any) -> None:
    """Spark refuses INSERT INTO a view with words that do not help; the page about Kafka tables quotes them."""
    text = _text(broker.bootstrap, "views-written-")
    for topic in ("views-written-orders", "views-written-customers"):
        broker.create(topic)
    (table,) = register_tables(spark, text, tables=["customers"]).values()
    table.write(spark.sql("SELECT 7 AS id, 'Cy' AS name"))
    assert [tuple(row) for row in spark.sql("SELECT * FROM customers").collect()] == [(7, "Cy")]
    with pytest.raises(Exception, match=r"UNSUPPORTED_INSERT\.RDD_BASED"):
        spark.sql("INSERT INTO customers VALUES (8, 'Di')")
    page = (Path(__file__).parent.parent.parent / "docs" / "kafka.md").read_text(encoding="utf-8")
    assert "UNSUPPORTED_INSERT.RDD_BASED" in page


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.usefixtures("views")
def test_tables_are_chosen_and_views_named(spark: Any, shop: str) -> None:
    assert list(register_tables(spark, shop, tables=["default_database.orders"])) == ["orders"]
    found = register_tables(spark, shop, tables={"my-orders": "orders", "who": "customers"})
    assert list(found) == ["my-orders", "who"]
    assert spark.sql("SELECT 1 FROM `my-orders` o JOIN who ON o.customer = who.id").count() > 0
    assert _names(spark) == {"orders", "my-orders", "who"}
    again = register_tables(spark, shop, tables=["orders"], options={"scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": "partition:0,offset:3"})  # fmt: skip
    assert again["orders"].kv.options["scan.bounded.mode"] == "specific-offsets"
    assert spark.table("orders").count() == 3, "the view is replaced"


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.usefixtures("views")
def test_names_of_databases_are_left_out(spark: Any, broker: Any) -> None:
    topic = broker.create("views-names")
    options = {"topic": topic, "properties.bootstrap.servers": broker.bootstrap}
    text = f"{_table('shop.orders')} USE archive; {_table('`or``ders`')} {_table('cat.db.Umsätze')}"
    assert list(register_tables(spark, text, options=options)) == ["orders", "or`ders", "Umsätze"]
    for name in ("orders", "`or``ders`", "`Umsätze`"):
        assert spark.sql(f"SELECT * FROM {name}").count() == 0
    clash = f"{_table('shop.orders')} {_table('archive.Orders')}"
    words = r"'shop\.orders' and 'archive\.Orders' would both be the view 'Orders': name the views, (tables=\{.*\})"
    with pytest.raises(SchemaError, match=words) as raised:
        register_tables(spark, clash, options=options)
    named = {"shop_orders": "shop.orders", "archive_Orders": "archive.Orders"}
    assert str(raised.value).endswith(f"tables={named!r}")
    assert list(register_tables(spark, clash, tables=named, options=options)) == list(named)
    default = f"{_table('orders')} {_table('shop.orders')}"
    with pytest.raises(SchemaError, match=r"tables=\{'default_database_orders': 'default_database\.orders', "):
        register_tables(spark, default, options=options)
    assert list(register_tables(spark, default, tables=["default_database.orders"], options=options)) == ["orders"]
    both = f"{_table('shop.orders')} {_table('archive.orders', connector='jdbc')}"
    with pytest.warns(KafkaSourceWarning, match="connector 'jdbc'"):
        assert list(register_tables(spark, both, options=options)) == ["orders"]


@pytest.mark.spark
@pytest.mark.services
@pytest.mark.usefixtures("views")
def test_no_view_is_made_if_a_table_cannot_be_read(spark: Any, broker: Any, shop: str) -> None:
    topic = broker.create("views-refused")
    wrong = (
        f"CREATE TABLE wrong (id INT, bad AS my_function('a')) WITH ('connector' = 'kafka', 'topic' = '{topic}', "
        f"{_BROKERS.format(bootstrap=broker.bootstrap)}, {_EARLIEST}, 'format' = 'json');"
    )
    kafka = shop.partition("CREATE TABLE console")[0]
    words = r"(?s)column .bad. of table .wrong. can.t be evaluated.*can.t be registered\. To register the others: "
    with pytest.raises(ConfigurationError, match=rf"{words}tables=\['orders', 'customers'\]"):
        register_tables(spark, kafka + wrong)
    missing = kafka + wrong.replace(topic, "views-nowhere").replace(", bad AS INITCAP('a')", "")
    with pytest.raises(OptionError, match=r"(?s)no topic 'views-nowhere'.*table 'wrong' can't be registered") as raised:
        register_tables(spark, missing)
    assert raised.value.option == "topic"
    with pytest.raises(OptionError, match=r"table 'wrong' can't be registered$"):
        register_tables(spark, missing, tables=["wrong"])
    assert _names(spark) == set()
    assert list(register_tables(spark, missing, tables=["orders", "customers"])) == ["orders", "customers"]


@pytest.mark.spark
@pytest.mark.services
def test_a_group_without_offsets_is_an_error_of_its_table(spark: Any, broker: Any) -> None:
    broker.create("views-group")
    text = (
        "CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 'views-group', 'format' = 'json', "
        f"{_BROKERS.format(bootstrap=broker.bootstrap)}, 'properties.group.id' = 'views')"
    )
    with pytest.raises(ConfigurationError, match=r"(?s)views-group.*table 't' can't be registered"):
        register_tables(spark, text)


# --- before Spark is asked ----------------------------------------------------------------------------------


def _register(text: str, **more: Any) -> dict[str, KafkaTable]:
    return register_tables(None, text, **more)  # type: ignore[arg-type]


def test_a_refused_table_is_named_with_the_others() -> None:
    text = f"{_table('good')} {_table('bad', format='jsn')} CREATE TABLE worse (id INTT) WITH ('connector' = 'kafka');"
    text += "CREATE TABLE other (id INT) WITH ('connector' = 'datagen'); CREATE TABLE bare (id INT);"
    words = r"(?s)Did you mean 'json'.*This is why table 'bad' can't be registered\. To register the others: "
    with pytest.raises(ConfigurationError, match=rf"{words}tables=\['good'\]$") as raised:
        _register(text)
    assert raised.value.option == "value.format" or raised.value.__cause__ is not None
    with pytest.raises(SchemaError, match=r"(?s)line 1.*table 'worse' can't be registered$"):
        _register(text, tables=["worse"])
    with pytest.raises(SchemaError, match=r"no table 'god'.*Did you mean 'good'"):
        _register(text, tables=["god"])
    with pytest.raises(OptionError, match=r"(?s)unknown connector 'datagen'.*table 'other' can't be registered$"):
        _register(text, tables=["other"])
    with pytest.raises(OptionError, match=r"(?s)'connector' for discovering.*table 'bare' can't be registered$"):
        _register(text, tables=["bare"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SET 'a' = 'b'", r"the text has no CREATE TABLE; it has SET \(line 1\)"),
        ("CREATE TABLE t (id INT); CREATE TABLE u (id INT) WITH ('connector' = 'jdbc')",
         r"creates no table of Kafka, only t \(no connector\), u \(connector 'jdbc'\)"),
        ("shop.sql", "'shop.sql' is the path of a file"),
        (Path("shop.sql"), r"takes Flink SQL as a string, not \w+Path: read it, path.read_text"),
        ("CREATE TABLE t (id INT); CREATE TABLE u AS TABLE t", "only t .no connector., u .follows table t.$"),
    ],
)  # fmt: skip
def test_texts_without_tables_of_kafka_are_errors(text: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        _register(text)


_JOB = (
    f"{_table('orders')} CREATE TABLE IF NOT EXISTS lake.copies WITH ('connector' = 'kafka') AS TABLE orders; "
    "USE lake; CREATE TABLE `more` /* AS TABLE x */ AS TABLE `default_database`.orders; "
    "CREATE TABLE console (id INT) WITH ('connector' = 'print');"
)


def test_tables_that_follow_others_are_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    class View:
        def createOrReplaceTempView(self, name: str) -> None:
            made.append(name)

    made: list[str] = []
    monkeypatch.setattr(KafkaTable, "read", lambda *_, **more: View())
    words = (
        r"no view for tables that are not of Kafka: lake\.copies \(follows table orders\), "
        r"lake\.more \(follows table `default_database`\.orders\), lake\.console \(connector 'print'\)$"
    )
    with pytest.warns(KafkaSourceWarning, match=words):
        assert list(_register(_JOB)) == ["orders"]
    assert made == ["`orders`"]


def test_the_last_statement_of_a_name_decides_whether_it_follows_another(monkeypatch: pytest.MonkeyPatch) -> None:
    view = SimpleNamespace(createOrReplaceTempView=lambda name: None)
    monkeypatch.setattr(KafkaTable, "read", lambda *_, **more: view)
    plain, following = _table("twice"), "CREATE TABLE twice AS TABLE orders;"
    with pytest.warns(KafkaSourceWarning, match=r"twice \(follows table orders\)$"):
        assert list(_register(f"{_table('orders')} {plain} DROP TABLE twice; {following}")) == ["orders"]
    assert list(_register(f"{_table('orders')} {following} DROP TABLE twice; {plain}")) == ["orders", "twice"]


def test_two_views_of_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark ignores the case of names. A mapping gives the views other names."""

    class View:
        def createOrReplaceTempView(self, name: str) -> None:
            made.append(name)

    made: list[str] = []
    monkeypatch.setattr(KafkaTable, "read", lambda *_, **more: View())
    clash = f"{_table('shop.orders')} {_table('archive.Orders')}"
    words = r"'shop\.orders' and 'archive\.Orders' would both be the view 'Orders': name the views, tables=\{"
    with pytest.raises(SchemaError, match=words):
        _register(clash)
    assert made == []
    assert list(_register(clash, tables={"a b": "shop.orders", "orders": "archive.Orders"})) == ["a b", "orders"]
    assert made == ["`a b`", "`orders`"]
    with pytest.raises(SchemaError, match="would both be the view 'X'"):
        _register(clash, tables={"x": "shop.orders", "X": "archive.Orders"})


def test_no_view_is_made_if_the_last_table_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class View:
        def createOrReplaceTempView(self, name: str) -> None:
            raise AssertionError(name)

    def read(table: KafkaTable, _: Any, **more: Any) -> View:
        if table.kv.name == "t3":
            raise OptionError("no topic", option="topic")
        return View()

    monkeypatch.setattr(KafkaTable, "read", read)
    words = r"no topic\nThis is why table 't3' can't be registered\. To register the others: tables=\['t1', 't2'\]$"
    with pytest.raises(OptionError, match=words) as raised:
        _register(f"{_table('t1')} {_table('t2')} {_table('t3')}")
    assert raised.value.option == "topic"


def test_options_replace_those_of_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    view = SimpleNamespace(createOrReplaceTempView=lambda name: None)
    monkeypatch.setattr(KafkaTable, "read", lambda *_, **more: view)
    given = {"properties.bootstrap.servers": "other:1"}
    for tables in (None, ["b", "a"], {"x": "a", "y": "b"}):
        made = _register(f"{_table('a')} {_table('b')}", tables=tables, options=given)
        assert [table.kv.options["properties.bootstrap.servers"] for table in made.values()] == ["other:1"] * 2


def test_without_a_jar_the_end_of_a_view_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def read(_: Any, spark: Any, **more: Any) -> Any:
        asked.append(more)
        if more:
            raise MissingExtraError("the Spark session has no Kafka source")
        return SimpleNamespace(createOrReplaceTempView=asked.append)

    monkeypatch.setattr(KafkaTable, "read", read)
    with pytest.warns(KafkaSourceWarning, match="the view of table 'a' reads up to the records that are there at its"):
        _register(_table("a"))
    assert asked == [{"source": "spark"}, {}, "`a`"]


@pytest.mark.parametrize("name", ["copies", "lake.copies", "more"])
def test_a_named_table_that_follows_another_is_an_error(name: str) -> None:
    words = rf"(?s)AS TABLE follows another table.*table 'lake\.{name.rpartition('.')[2]}' can't be registered"
    with pytest.raises(SchemaError, match=words):
        _register(_JOB, tables=["orders", name])


def test_tables_are_a_list_or_a_mapping() -> None:
    with pytest.raises(ConfigurationError, match="tables must be a list of names, or a mapping"):
        _register(_table("orders"), tables="orders")
    with pytest.raises(ConfigurationError, match="tables is empty"):
        _register(_table("orders"), tables=[])


def test_an_unreachable_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **more: Any) -> Any:
        raise BrokerError("brokers at '127.0.0.1:1' could not be asked")

    monkeypatch.setattr(KafkaTable, "read", read)
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        _register(_table("orders"))
