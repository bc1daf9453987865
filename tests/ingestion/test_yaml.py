"""The grammar of a pipeline's YAML: texts, variables, secrets, and the limits on hostile texts."""

from __future__ import annotations

import builtins
import copy
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from kvformat.ingestion.pipeline.yaml import Document, Secret, parse_document, read_text
from kvformat.registry import ConfigurationError, MissingExtraError


def _source(text: str, **variables: Any) -> Any:
    return parse_document(f"source: {text}", variables).blocks["source"]


def _error(text: str, variables: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_document(text, variables)
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["0", "007", "true", "yes", "null", "~", "8601-8604", "1e3", "2024-01-01", "0x10", "<yourEndpoint>", "1_000"],
)
def test_scalars_are_texts_as_written(text: str) -> None:
    assert _source(f"{{a: {text}}}") == {"a": text}


def test_quotes_blocks_comments_and_flow_have_their_meaning() -> None:
    found = parse_document(
        "source:  # a comment\n  a: 'it''s # text'\n  b: \"x\\ty\"\n  c: |\n    one\n    two\n"
        "  d: >-\n    one\n    two\n  e: [1, {f: 2}]\n  g: \\*, a AS b\n  h: ''\n"
    )
    assert found.blocks["source"] == {
        **{"a": "it's # text", "b": "x\ty", "c": "one\ntwo\n", "d": "one two", "e": ["1", {"f": "2"}]},
        **{"g": "\\*, a AS b", "h": ""},
    }


def test_aliases_are_copies() -> None:
    assert parse_document("source: &a {type: kafka}\nsink: *a").blocks == {
        "source": {"type": "kafka"},
        "sink": {"type": "kafka"},
    }


def test_explicit_tags_of_plain_types_are_allowed() -> None:
    assert _source("{a: !!str 5, b: !!int 6}") == {"a": "5", "b": "6"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the pipeline is empty; it needs the blocks sink, source"),
        ("# only a comment", "the pipeline is empty"),
        ("- a\n- b", "must be a map of the blocks source, sink, transform, route, pipeline"),
        ("just a text", "must be a map of the blocks"),
        ("sources: {}", "has no block 'sources'. Did you mean 'source'? Allowed blocks: source, sink, transform,"),
        ("source: {a: 1, a: 2}", "line 1, column 16: the key 'a' is written twice"),
        ("source: {}\nsource: {}", "line 2, column 1: the key 'source' is written twice"),
        ("source:\n  topic:\n  type: kafka", "line 2, column 3: the key 'topic' has no value. Remove it, or write ''"),
        ("source: {[a]: b}", "line 1, column 10: a key must be a text"),
        ("source: {<<: {a: 1}}", "merge keys (<<) are not supported"),
        ("source: {'${a}': b}", "a variable can stand in a value, not in a key"),
        ("source: !!python/object/apply:os.system [ls]", "line 1, column 9: tags (!...) are not supported"),
        ("source: {a: !secret b}", "tags (!...) are not supported"),
        ("source: {a: b\nsink: c", "the pipeline is not YAML: "),
        ("source:\n  a: b: c", "at line 2, column 7. A text with ': ' needs quotes"),
        ("source:\n  a: *, b", "line 2"),
        ("source:\n  a: [${x}]", "put a text with ${...} in quotes"),
        ("a: 1\n---\nb: 2", "the pipeline is not YAML: but found another document"),
        ("source: *nothing", "found undefined alias"),
        ("source: {a: \x00}", "a character at character 13 is not allowed"),
        ("source: {a: '\ud800'}", "is not allowed"),
        ("\tsource: {}", "the pipeline is not YAML"),
    ],
)
def test_malformed_texts_are_errors(text: str, reason: str) -> None:
    assert reason in _error(text)


def test_a_syntax_error_does_not_quote_the_line() -> None:
    assert "sesame" not in _error("source:\n  password: sesame: sesame2")


# --- variables -------------------------------------------------------------------------------------------------


def test_variables_are_replaced_inside_of_texts_and_only_once() -> None:
    found = _source("{a: 'x${b}${ c.d-e }y'}", **{"b": "${c.d-e}", "c.d-e": 5})
    assert found == {"a": "x${c.d-e}5y"}
    assert _source("{a: '${b}'}", b=True) == {"a": "true"}


def test_a_value_cannot_add_yaml() -> None:
    assert _source("{a: '${b}'}", b="1}\nsink: {x: 2") == {"a": "1}\nsink: {x: 2"}


def test_the_environment_comes_after_the_given_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_TOPIC_NAME", "from environment")
    assert _source("{a: '${kafka.topic-name}'}") == {"a": "from environment"}
    assert _source("{a: '${kafka.topic-name}'}", **{"kafka.topic-name": "given"}) == {"a": "given"}
    monkeypatch.setenv("EMPTY", "")
    assert _source("{a: 'x${empty}y'}") == {"a": "xy"}
    monkeypatch.setenv("SECRET_VALUES_LOGIN", "sesame")
    found = _source("{a: '${secret_values.login}'}")["a"]
    assert isinstance(found, Secret)
    assert found.reveal() == "sesame"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "${kafka.topc}",
            "line 1, column 13: the variable 'kafka.topc' has no value. Did you mean 'kafka.topic'? Set it",
        ),
        ("${nothing}", "--set nothing=..., set={'nothing': ...}, or the environment variable NOTHING"),
        ("${}", "after '${' a name and '}' must follow"),
        ("${a", "after '${' a name and '}' must follow"),
        ("${a b}", "after '${' a name and '}' must follow"),
        ("${${a}}", "after '${' a name and '}' must follow"),
        ("${list}", "the variable 'list' must be a text, not list"),
    ],
)
def test_variables_without_a_value_are_errors(text: str, reason: str) -> None:
    assert reason in _error(f"source: {{a: '{text}'}}", {"kafka.topic": "x", "list": []})


def test_an_error_is_at_its_option_or_at_the_block() -> None:
    """An error of a format has its option without the name of the format."""
    places = {("a", ""): "line 1", ("a", "x-topic"): "line 2", ("a", "json.topic"): "line 3", ("b", "url"): "line 4"}
    place = Document({}, places=places).place
    found = [place("a", "topic"), place("a", "json.topic"), place("a", "opic"), place("a", None), place("a", "url")]
    assert found == [" (line 3)", " (line 3)", *[" (line 1)"] * 3]
    assert place("b", None) == place("c", "topic") == ""


# --- secrets ---------------------------------------------------------------------------------------------------


def test_a_secret_shows_nothing() -> None:
    secret = _source("{a: 'user:${secret_values.password}'}", **{"secret_values.password": "sesame"})["a"]
    for shown in (
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>20}",
        f"{secret:>3}",
        repr([secret]),
    ):
        assert "sesame" not in shown
        assert "******" in shown
    assert secret.reveal() == "user:sesame"
    assert type(secret.reveal()) is str
    for same in (pickle.loads(pickle.dumps(secret)), copy.deepcopy(secret)):
        assert isinstance(same, Secret)
        assert same == secret


@pytest.mark.parametrize("text", ["${secret_values.x}${y}", "${y}${secret_values.x}", "${y} ${secret_values.x} ${y}"])
def test_a_text_with_a_secret_and_another_variable_is_a_secret(text: str) -> None:
    found = _source(f"{{a: '{text}', b: '${{y}}'}}", **{"secret_values.x": "sesame", "y": "plain"})
    assert isinstance(found["a"], Secret)
    assert "sesame" in found["a"].reveal()
    assert not isinstance(found["b"], Secret)


def test_a_secret_can_be_given_as_a_value() -> None:
    assert _source("{a: '${b}'}", b=Secret("x")) == {"a": "x"}


# --- texts and files -------------------------------------------------------------------------------------------


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("\ufeffsource: {type: kafka}", encoding="utf-8")
    assert read_text(path) == read_text(str(path)) == "source: {type: kafka}"


@pytest.mark.parametrize("text", ["source:\n  a: b", "{source: 1}", "source: a", "a\nb"])
def test_a_text_is_not_a_path(text: str) -> None:
    assert read_text(text) == text


def test_a_missing_or_binary_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"the pipeline '.*none.yaml' can't be read: No such file"):
        read_text(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_text(str(tmp_path))
    with pytest.raises(ConfigurationError, match="can't be read: embedded null"):
        read_text("a\0b")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="is not a text in UTF-8"):
        read_text(tmp_path / "binary")


def test_without_pyyaml_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"install kvformat\[ingest\]"):
        parse_document("source: {}")


# --- an indented block -----------------------------------------------------------------------------------------


def test_an_indented_block_is_read_with_a_note() -> None:
    found = parse_document("source:\n  a: b\n\n route:\n  - c: d\n")
    assert found.blocks == {"source": {"a": "b"}, "route": [{"c": "d"}]}
    assert found.notes == ("'route' at line 4 is read as a block of the pipeline: do not indent it",)


def test_only_a_line_with_the_name_of_a_block_is_moved() -> None:
    assert "not YAML" in _error("source:\n   a: b\n topic: c\n")
    assert parse_document("  source:\n    a: b\n  sink:\n    c: d\n").notes == ()


# --- hostile texts ---------------------------------------------------------------------------------------------

_BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))
BOMBS = {
    "aliases": _BOMB,
    "aliases in lists": "source:\n"
    + "".join(f"  k{i}: &a{i} {{x: {'*a' + str(i - 1) if i else 1}}}\n" for i in range(50)),
    "a list in itself": "source: &a [*a]",
    "a map in itself": "source: &a {b: *a}",
    "lists": "source: " + "[" * 100_000,
    "maps": "source: " + "{a: " * 100_000,
    "nested dashes": "- " * 100_000,
    "question marks": "? " * 100_000,
    "keys": "source:\n" + "".join(f"  k{i}: v\n" for i in range(30_000)),
    "long": "source: {a: '" + "x" * 2**20 + "'}",
    "deep": "source: " + "{a: " * 9 + "1" + "}" * 9,
    "tabs": "source:\n" + "\t\n" * 100_000 + "\tx",
    "indents": "".join(" " * i + f"a{i}:\n" for i in range(500)),
    "blocks": "source:\n   a: b\n" + " route:\n" * 1000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_texts_are_errors_soon(name: str) -> None:
    start = time.process_time()
    with pytest.raises(ConfigurationError) as caught:
        parse_document(BOMBS[name])
    assert time.process_time() - start < 20
    assert len(str(caught.value)) < 500


_ALIASES = f"source: {{a: &x [1], b: [{'*x,' * 9997}], "


def _lengthy(length: int) -> str:
    begin, end = "source: {a: '", "'}"
    return begin + "x" * (length - len(begin) - len(end)) + end


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        (_lengthy(2**20), _lengthy(2**20 + 1), "more than 1,048,576 characters"),
        ("source: " + "{a: " * 7 + "1" + "}" * 7, "source: " + "{a: " * 8 + "1" + "}" * 8, "more than 8 levels"),
        (_ALIASES + "c: 1}", _ALIASES + "c: 1, d: 1}", "more than 20,000 values"),
    ],
    ids=["characters", "levels", "values"],
)
def test_the_largest_texts(text: str, more: str, reason: str) -> None:
    assert parse_document(text).blocks["source"]
    with pytest.raises(ConfigurationError, match=reason):
        parse_document(more)


def test_a_file_is_read_whole_or_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    for text in (_lengthy(2**20), "source: {a: b}\n"):
        path.write_text(text, encoding="utf-8")
        assert read_text(path) == text
    path.write_text("source: {a: b}" + " " * 2**20 + "\nsink: {c: d}", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="more than 1,048,576 characters"):
        parse_document(read_text(path))


def test_a_large_pipeline_is_read() -> None:
    table = f"CREATE TABLE db.t (id BIGINT, {', '.join(f'c{i} VARCHAR(10)' for i in range(20))});"
    assert len(_source(f"{{a: '{table * 2000}'}}")["a"]) > 500_000
