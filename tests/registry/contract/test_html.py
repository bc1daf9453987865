"""The HTML of formats and tables in a notebook: values are escaped, secrets are hidden."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kvformat.connectors import KafkaTable
from kvformat.registry import KeyValueFormat, available_formats, get_format
from kvformat.registry.contract.discovery import format_class
from tests.support.protobuf_types import a_file

_BOLD = "<b>&amp;\"'"
_TABLE = f"""CREATE TABLE `t{_BOLD}` (
  id BIGINT, `c{_BOLD}` STRING, ts TIMESTAMP(3), sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  half AS CONCAT(`c{_BOLD}`, '<i>'), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'upsert-kafka', 'topic' = '<u>', 'properties.bootstrap.servers' = 'b', 'value.format' = 'json',
  'key.format' = 'avro-confluent', 'key.avro-confluent.url' = 'http://me:sesame@h',
  'key.avro-confluent.basic-auth.user-info' = 'a:sesame', 'properties.ssl.key.password' = 'sesame<1'
)"""


def _read(html: str) -> tuple[str, list[list[list[str]]]]:
    """Parse HTML. Returns the text before the tables and the cells of their rows; unescaped markup would be lost."""
    whole = ET.fromstring(html)
    allowed = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert {element.tag for element in whole.iter()} <= allowed
    head = f"{whole[0].text}{whole[0].tail}".strip()
    cells = [[["".join(cell.itertext()) for cell in row] for row in table.iter("tr")] for table in whole.iter("table")]
    return head, cells


def test_a_format_shows_its_options_and_which_were_given() -> None:
    head, (options,) = _read(get_format("csv", {"field-delimiter": "<", "null-literal": _BOLD})._repr_html_())
    assert head == "csv format with rows +I"
    assert options[0] == ["option", "value", ""]
    assert ["field-delimiter", "<", "given"] in options
    assert ["null-literal", _BOLD, "given"] in options
    assert ["ignore-parse-errors", "false", "default"] in options
    assert "escape-character" not in [name for name, *_ in options]
    head, _ = _read(get_format("debezium-json")._repr_html_())
    assert head == "debezium-json format with rows +I, -U, +U, -D"


@pytest.mark.parametrize("identifier", available_formats())
def test_every_format_can_be_shown(identifier: str, tmp_path: Path) -> None:
    specs = format_class(identifier).option_specs
    needed = {spec.name: "http://me:sesame@h" for spec in specs if spec.required}
    if identifier == "protobuf":
        needed = {
            "message-class-name": "M",
            "descriptor-file": a_file(tmp_path, 'name: "m" message_type { name: "M" }'),
        }
    html = get_format(identifier, needed)._repr_html_()
    head, _ = _read(html)
    assert head.startswith(identifier)
    assert "sesame" not in html


def test_a_table_shows_its_columns_and_its_options() -> None:
    table = KafkaTable.from_ddl(_TABLE)
    head, (columns, options) = _read(table._repr_html_())
    assert head == f"t{_BOLD} upsert-kafka table"
    assert columns == [
        ["column", "type", "from"],
        ["id", "BIGINT NOT NULL", "key, value, PRIMARY KEY"],
        [f"c{_BOLD}", "STRING", "value"],
        ["ts", "TIMESTAMP(3)", "value, WATERMARK, 5000 ms late"],
        ["sent", "TIMESTAMP_LTZ(3)", "metadata timestamp"],
        ["half", "STRING", f"AS CONCAT(`c{_BOLD}`, '<i>')"],
    ]
    assert dict(options[1:]) == {
        "connector": "upsert-kafka",
        "topic": "<u>",
        "properties.bootstrap.servers": "b",
        "value.format": "json",
        "key.format": "avro-confluent",
        "key.avro-confluent.url": "http://******@h",
        "key.avro-confluent.basic-auth.user-info": "******",
        "properties.ssl.key.password": "******",
    }


def test_a_table_without_a_statement_can_be_shown() -> None:
    head, (columns, options) = _read(KeyValueFormat("id INT", {"format": "json"})._repr_html_())
    assert head == "table kafka table"
    assert columns[1:] == [["id", "INT", "value"]]
    assert options[1:] == [["format", "json"]]
