"""The grammar of csv, both kernels, and messages beside broken ones."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvformat.codecs import KERNEL
from kvformat.registry import get_format
from tests.codecs.csv import csv_mutation
from tests.support import vectors
from tests.support.decoding import alone, answers, decoded
from tests.support.extent import case_count

_ROOT = Path(__file__).parents[3]
MUTATIONS = case_count("KVFORMAT_MUTATIONS", quick=6_000, night=20_000)
"""How many messages both kernels read; more for a night."""

# --- the grammar ----------------------------------------------------------------------------------------

_TOO_MANY = "too many columns: expected at most 2; set ignore-trailing-unmappable to skip the others"
_ONE = "row length mismatch: 2 fields expected but was 1"
_NOTHING = "there is no record in the message"
_RECORDS: list[tuple[dict[str, str], str, Any]] = [
    ({}, "a,b", ("a", "b")),
    ({}, "a,b\n", ("a", "b")),
    ({}, "a,b\r\nc,d", ("a", "b")),
    ({}, "a,b\rc", ("a", "b")),
    ({}, "a\n,b", _ONE),
    ({}, "\na,b", _ONE),
    ({}, "a,", ("a", "")),
    ({}, ",", ("", "")),
    ({}, "", _NOTHING),
    ({}, '"a","b"', ("a", "b")),
    ({}, '"a,b",c', ("a,b", "c")),
    ({}, '"a\nb",c', ("a\nb", "c")),
    ({}, '"a""b",""""', ('a"b', '"')),
    ({}, '"",""', ("", "")),
    ({}, 'a"b,c"', ('a"b', 'c"')),
    ({}, 'a""b,"', "no closing quote for the value that begins at character 6"),
    ({}, ' "a",b', (' "a"', "b")),
    ({}, '"a" ,"b"\t\n', ("a", "b")),
    ({}, '"a"x,b', "expected ',' or the end after a closing quote, found 'x' at character 4"),
    ({}, '"a', "no closing quote for the value that begins at character 1"),
    ({}, 'a,"b""', "no closing quote for the value that begins at character 3"),
    ({}, "'a,b'", ("'a", "b'")),
    ({}, "a\\,b", ("a\\", "b")),
    ({}, "a,b,", ("a", "b")),
    ({}, "a,b, ", ("a", "b")),
    ({}, "a,b,c", _TOO_MANY),
    ({}, "a,b,,", _TOO_MANY),
    ({}, 'a,b,"c', "no closing quote for the value that begins at character 5"),
    ({}, 'a,b,,"c', "no closing quote for the value that begins at character 6"),
    ({}, 'a,b,c,"d', "no closing quote for the value that begins at character 7"),
    ({"allow-trailing-comma": "false"}, "a,b,", _TOO_MANY),
    ({"allow-trailing-comma": "false"}, "a,b", ("a", "b")),
    ({"ignore-trailing-unmappable": "true"}, "a,b,c,d\ne", ("a", "b")),
    ({"ignore-trailing-unmappable": "true"}, 'a,b,c,"d', "no closing quote for the value that begins at character 7"),
    ({"fail-on-missing-columns": "true"}, "a", "not enough columns: expected 2, found 1"),
    ({"fail-on-missing-columns": "true", "ignore-parse-errors": "true"}, "a", []),
    ({"ignore-parse-errors": "true"}, "a", ("a", None)),
    ({"ignore-parse-errors": "true"}, '"a', []),
    ({"escape-character": "\\"}, "a\\,b,c", ("a,b", "c")),
    ({"escape-character": "\\"}, "\\n\\r\\t\\0,\\x", ("\n\r\t\x00", "x")),
    ({"escape-character": "\\"}, '"\\"a\\"",\\"b', ('"a"', '"b')),
    ({"escape-character": "\\"}, "a,b\\", "nothing after the escape character at character 4"),
    ({"escape-character": "\\"}, '"a\\', "nothing after the escape character at character 3"),
    ({"escape-character": "\\"}, '"a\\\\",b', ("a\\", "b")),
    ({"escape-character": "\\"}, "\\é,b", ("é", "b")),
    ({"escape-character": "\\"}, "a\\\nb,c", ("a\nb", "c")),
    (
        {"escape-character": "\\"},
        '"a"\\,b',
        "expected ',' or the end after a closing quote, found '\\\\' at character 4",
    ),
    ({}, '"a"世,b', "expected ',' or the end after a closing quote, found '世' at character 4"),
    ({}, '"a"😀,b', "expected ',' or the end after a closing quote, found '😀' at character 4"),
    ({"escape-character": '"'}, '"a""b",c', ('a"b', "c")),
    ({"escape-character": '"'}, 'a",b,c', ("a,b", "c")),
    ({"escape-character": ","}, '"a,"b",c', ('a"b', "c")),
    ({"escape-character": ","}, "a,b", ("a", "b")),
    ({"escape-character": "\n"}, "a\n,b,c", ("a,b", "c")),
    ({"field-delimiter": "\\n"}, "a\nb", ("a", "b")),
    ({"field-delimiter": "\\n"}, "\nb", _ONE),
    ({"field-delimiter": "\\n"}, '"a"\nb', ("a", "b")),
    ({"quote-character": "\n"}, "a,\nb", ("a", "")),
    ({"quote-character": "\0"}, "a,", ("a", "")),
    ({"quote-character": ","}, "a,b", ("a", "b")),
    ({"quote-character": ","}, ",a,,b", "no closing quote for the value that begins at character 1"),
    ({"field-delimiter": "é", "quote-character": "世", "escape-character": "ß"}, "世aé世世b世éßéc", ("aé世b", "éc")),
    (
        {"field-delimiter": "é", "quote-character": "世"},
        "世a",
        "no closing quote for the value that begins at character 1",
    ),
    (
        {"field-delimiter": "é", "quote-character": "世"},
        "世a世ã,b",
        "expected 'é' or the end after a closing quote, found 'ã' at character 4",
    ),
    ({"field-delimiter": "é"}, "ãéè", ("ã", "è")),
    ({"disable-quote-character": "true"}, '"a,b"', ('"a', 'b"')),
    ({"field-delimiter": "\\u0000"}, "ab\x00c", ("ab", "c")),
    ({"field-delimiter": "\\uu007c"}, "a|b", ("a", "b")),
    ({"field-delimiter": "\\11"}, "a\tb", ("a", "b")),
    ({"field-delimiter": "\\174"}, "a|b", ("a", "b")),
    ({"field-delimiter": "\\f"}, "a\fb", ("a", "b")),
    ({"field-delimiter": "\\|"}, "a|b", ("a", "b")),
    ({"field-delimiter": "\\u0000"}, '"a"', _ONE),
    ({"trim-spaces": "true"}, " a , b ", ("a", "b")),
    ({"trim-spaces": "true"}, ' "a" , " b "', ("a", " b ")),
    ({"trim-spaces": "true"}, "\ta\x01,\x1fb", ("a", "b")),
    ({"trim-spaces": "true"}, "  ,  ", ("", "")),
    ({"trim-spaces": "true"}, " \n", _ONE),
    ({"trim-spaces": "true", "escape-character": "\\"}, "a\\n,b\\ \\n", ("a", "b")),
    ({"trim-spaces": "true", "field-delimiter": " "}, " a b", _TOO_MANY),
    ({"trim-spaces": "true", "field-delimiter": "\\t"}, " a \t b", ("a", "b")),
    ({"trim-spaces": "true", "quote-character": " "}, " a ,b", ("a", "b")),
    ({"allow-comments": "true"}, "#x\n\n \na,b", ("a", "b")),
    ({"allow-comments": "true"}, "#a", _NOTHING),
    ({"allow-comments": "true"}, "\n\r ", _NOTHING),
    ({"allow-comments": "true"}, " a,b", ("a", "b")),
    ({"allow-comments": "true"}, "#x\r#y\r\na,#b", ("a", "#b")),
    ({}, "#a,b", ("#a", "b")),
]
"""Options, messages, and the two columns, the error, or no row."""


@pytest.mark.parametrize(("options", "message", "wanted"), _RECORDS)
def test_columns_of_a_record(options: dict[str, str], message: str, wanted: Any) -> None:
    batch = decoded(get_format("csv", options), [message.encode()], "x STRING, y STRING")
    if batch.errors is not None:
        assert batch.errors.to_pylist() == [wanted]
    else:
        assert [tuple(row.values()) for row in batch.rows.to_pylist()[0]] == ([wanted] if wanted else [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, '7,Anna,"a b",1.5,12.50,"2024-02-29 23:59:59.123",true,a;b,"Ulm;1;2024-01-01 00:00:00Z"'),
        ({}, '"7","Anna","say ""hi"", you","1.5",12.50,"2024-02-29 23:59:59","true","a;b",\r\n'),
        ({"escape-character": "\\"}, '7,Anna\\, B.,"\\"hi\\"\\n",1.5,12.5,2024-02-29 23:59:59,false,,'),
        ({"trim-spaces": "true"}, ' 7 , Anna, "a, b" ,1.5 ,12.50, "2024-02-29 23:59:59.123" ,true ,a ; b,'),
        ({"null-literal": ""}, ",,,,,,,,"),
        ({"ignore-parse-errors": "true"}, ",,,,,,,,"),
        ({}, " 7 ,Anna, b ,1e3,1.005, 2024-02-28 23:59:59 ,TRUE,,"),
    ],
)
def test_ordinary_messages(options: dict[str, str], message: str) -> None:
    batch = decoded(get_format("csv", options), [message.encode()] * 20, csv_mutation.ORDERS)
    assert batch.errors is None
    assert batch.rows.to_pylist() == [batch.rows[0].as_py()] * 20


@pytest.mark.parametrize(
    ("trims", "text", "elements"),
    [
        ("true", " a ; b", ["a", "b"]),
        ("true", '" a ; b "', ["a", "b"]),
        ("true", "\ta\t;\x01 ;c", ["a", "", "c"]),
        ("false", "a ; b", ["a ", " b"]),
        ("false", '" a;b "', [" a", "b "]),
    ],
)
def test_elements_are_trimmed_like_columns_only_with_trim_spaces(trims: str, text: str, elements: list[str]) -> None:
    format = get_format("csv", {"trim-spaces": trims})
    members = ", ".join(f"f{number} STRING" for number in range(len(elements)))
    (row,) = (
        decoded(format, [f"{text},{text}".encode()], f"a ARRAY<STRING>, r ROW<{members}>").rows.flatten().to_pylist()
    )
    assert (row["a"], [*row["r"].values()]) == (elements, elements)


# --- both kernels ---------------------------------------------------------------------------------------


def test_both_kernels_give_the_same_rows_and_errors() -> None:
    if KERNEL != "compiled":
        pytest.skip("no compiled kernel")
    command = [sys.executable, "-m", "tests.codecs.csv.csv_mutation", str(MUTATIONS)]
    environment = {**os.environ, "KVFORMAT_KERNEL": "python"}
    good = bad = 0
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        assert pickle.load(source.stdout) == "python"
        for case, messages, found in csv_mutation.batches(MUTATIONS):
            *same, wanted = pickle.load(source.stdout)
            assert same == [case, messages]
            for message, one, other in zip(messages, found, wanted, strict=True):
                assert one == other, f"{csv_mutation.CASES[case]}: {message!r}"
                good += one.error is None
                bad += one.error is not None
        assert source.wait() == 0
    assert good + bad >= MUTATIONS
    assert min(good, bad) > 0.2 * MUTATIONS


# --- neighbours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.01, 0.3, 1])
def test_bad_values_and_records_do_not_affect_other_records_of_a_block(share: float) -> None:
    rng = random.Random(7)
    bad = ["x,1,a", "1,x,a", "1,300,a", "x,x,a", "1", '1,1,"a', "1,1,a,b", "", None]
    usual = ["1,1,a", "-2,,b", '"3","3","c ""d"""']
    messages = [rng.choice(bad if rng.random() < share else usual) for _ in range(500)]
    sent = [None if message is None else message.encode() for message in messages]
    format = get_format("csv", {"null-literal": ""})
    schema = "i INT, t TINYINT, s STRING"
    found = answers(decoded(format, sent, schema))
    assert found == alone(format, sent, schema)
    assert sum(answer.error is not None for answer in found) >= 3


@pytest.mark.parametrize("options", csv_mutation.CASES, ids=str)
def test_a_message_does_not_change_its_neighbours(options: dict[str, str]) -> None:
    """Broken messages between good ones, in one batch and alone."""
    rng, format = random.Random(str(options)), get_format("csv", options)
    for schema in (csv_mutation.ORDERS, "x STRING, y STRING"):
        usual = csv_mutation.orders(rng, 150, csv_mutation.ORDERS, options)
        messages = usual if schema == csv_mutation.ORDERS else csv_mutation.small_batch(rng)
        messages = [part for message in messages for part in (message, csv_mutation.mutated(rng, message))]
        rng.shuffle(messages)
        array = pa.array([None, *messages], pa.binary()).slice(1)
        for message, answer, wanted in zip(
            messages, answers(decoded(format, array, schema)), alone(format, messages, schema), strict=True
        ):
            assert answer == wanted, message


def test_vectors_give_the_same_rows_alone_and_in_a_batch() -> None:
    compared = 0
    for case in vectors.cases("csv"):
        if case["direction"] != "decode" or "factory_error" in case or not case["messages"]:
            continue
        format, columns = get_format("csv", case["options"]), vectors.columns(case)
        messages = [vectors.message_bytes(message["in"]) for message in case["messages"]]
        assert answers(decoded(format, messages, columns)) == alone(format, messages, columns), case["id"]
        compared += len(messages)
    assert compared > 5000


@pytest.mark.parametrize(
    "batch",
    [
        [b"a,b,c", b"a", b"a,b"],
        [b'"a', b'b",c', b"a,b"],
        [b'"a,b', b'c",d', b"a,b"],
        [b'a,"b', b'",c', b"a,b"],
        [b'"a"",b', b'c"",d"', b"a,b"],
        [b'a""b,c', b"a,b"],
        [b"caf\xc3", b"\xa9,b", b"a,b"],
        [b"a,\xc3", b"\xa9,b", b"a,b"],
        [b"\xc3\xa9,b", b"\xa9,b", b"\xc3", b"a,b"],
        [b"a,b\\", b",b", b"a,b"],
    ],
)
def test_two_broken_messages_do_not_make_a_valid_one(batch: list[bytes]) -> None:
    """Together they have as many delimiters, quotes or bytes of a character as valid messages."""
    format, schema = get_format("csv", {"escape-character": "\\"}), "x STRING, y STRING"
    together = answers(decoded(format, batch, schema))
    assert together == alone(format, batch, schema)
    assert together[-1].error is None
