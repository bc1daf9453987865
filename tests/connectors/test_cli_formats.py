"""`formats` and `options`: what is told of each option, and of extras that are missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kvformat.connectors.cli.formats import missing_extras
from tests.support.cli import lines, run


def _options(name: str) -> dict[str, dict[str, Any]]:
    return {option["name"]: option for option in lines(run("options", name, "--json").stdout)}


def test_options_have_their_declaration() -> None:
    confluent = _options("avro-confluent")
    assert (confluent["url"]["required"], confluent["url"]["also"]) == (True, ["schema-registry.url"])
    assert (confluent["subject"]["required"], confluent["subject"]["default"]) == (False, None)
    secrets = {name: confluent[name]["secret"] for name in ("url", "basic-auth.user-info", "properties")}
    assert secrets == {"url": False, "basic-auth.user-info": True, "properties": True}
    csv = _options("csv")
    assert (csv["field-delimiter"]["default"], csv["allow-comments"]["default"]) == (",", "false")
    standard = _options("json")["timestamp-format.standard"]
    assert (standard["default"], standard["allowed"]) == ("SQL", ["SQL", "ISO-8601"])


def test_a_listing_of_options_says_what_is_required_and_other_names() -> None:
    row = next(line for line in run("options", "avro-confluent").stdout.splitlines() if line.startswith("url "))
    assert row.split()[:3] == ["url", "string", "required"]
    assert row.endswith("Also as schema-registry.url.")
    assert run("options", "avro").stdout.startswith("option")


def test_extras_with_a_package_that_is_missing_are_told_except_those_of_the_authors() -> None:
    requires = [
        "click>=8; extra == 'there'",
        "no-such-package>=1 ; python_version > '3' and extra == \"absent\"",
        "click; extra == 'absent'",
        "no-such-package; extra == 'dev'",
        "no-such-package; extra == 'docs'",
        "no-such-package>=1",
    ]
    distribution: Any = SimpleNamespace(requires=requires)
    assert missing_extras(distribution) == ("absent",)
    distribution.requires = None
    assert missing_extras(distribution) == ()
