"""Values of the options of `kafka` and `upsert-kafka`."""

from __future__ import annotations

import pytest

from kvformat.registry.contract.errors import OptionError
from kvformat.registry.sql.connector_options import (
    KAFKA_OPTIONS,
    delivery_guarantee,
    options_of,
    parse_offsets,
    parse_option,
)

_KEY = "scan.startup.specific-offsets"


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("partition:0,offset:42", {0: 42}),
        ("partition:0,offset:42;partition:1,offset:300;", {0: 42, 1: 300}),
        ("partition:+00,offset:-007", {0: -7}),
        ("partition:0,offset:1;partition:0,offset:2", {0: 2}),
        (f"partition:{2**31 - 1},offset:{2**63 - 1}", {2**31 - 1: 2**63 - 1}),
        (f"partition:0,offset:{-(2**63)}", {0: -(2**63)}),
    ],
)
def test_offsets_are_64_bits_and_partitions_31(text: str, offsets: dict[int, int]) -> None:
    assert parse_offsets(_KEY, text) == offsets


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"partition:{2**31},offset:1",
        f"partition:0,offset:{2**63}",
        f"partition:0,offset:{-(2**63) - 1}",
        "partition:-1,offset:1",
        "partition:0,offset:1;;partition:1,offset:1",
        "partition:0, offset:1",
        "offset:1,partition:0",
    ],
)
def test_malformed_offsets_are_an_error_of_the_option(text: str) -> None:
    with pytest.raises(OptionError, match="should follow the format") as raised:
        parse_offsets(_KEY, text)
    assert raised.value.option == _KEY


@pytest.mark.parametrize("value", ["x password=hunter2", "https://ada:hunter2@host"])
def test_errors_do_not_show_a_secret_in_a_value(value: str) -> None:
    millis = next(spec for spec in KAFKA_OPTIONS if spec.name == "scan.startup.timestamp-millis")
    for parse in (
        lambda: parse_option(millis, {millis.name: value}),
        lambda: parse_offsets(_KEY, value),
        lambda: options_of(value),
    ):
        with pytest.raises(OptionError) as raised:
            parse()
        assert "hunter2" not in str(raised.value)


def test_the_old_name_of_the_delivery_guarantee_has_precedence_and_any_spelling() -> None:
    given = {"sink.delivery-guarantee": "at-least-once", "sink.semantic": None}
    assert delivery_guarantee(given) == ("sink.delivery-guarantee", "at-least-once")
    assert delivery_guarantee({**given, "sink.semantic": "EXACTLY_ONCE"}) == ("sink.semantic", "exactly-once")
    with pytest.raises(OptionError, match=r"option 'sink\.semantic' must be one of exactly-once, at-least-once, none"):
        delivery_guarantee({**given, "sink.semantic": "twice"})
