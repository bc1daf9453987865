"""Forms of timestamps against their peers: Java's DateTimeFormatter (recorded), and Python's datetime and zoneinfo."""

from __future__ import annotations

import datetime as dt
import json
import lzma
import os
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from kvformat.codecs._timestamps.options import TimestampForms
from kvformat.codecs._timestamps.patterns import EPOCHS, parse_forms
from kvformat.codecs._timestamps.read import FormReader
from kvformat.registry import get_format
from kvformat.registry.contract.types import FlinkType
from kvformat.registry.java.zones import offset_of_local, offset_of_moment, zone_named
from tests.support.extent import case_count

ROOT = Path(__file__).parents[3]
FIXTURE = ROOT / "fixtures" / "java-17" / "timestamp-forms.tsv.xz"
PATTERNS, ZONE = "timestamp-format.patterns", "timestamp-format.zone"
RANDOM = case_count(quick=6_000, night=20_000)
_TYPES = ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)")
_EPOCH = dt.datetime(1970, 1, 1)


def _recorded() -> list[list[str]]:
    lines = lzma.decompress(FIXTURE.read_bytes()).decode().splitlines()
    return [line.split("\t") for line in lines]


def _read(kind: str, options: dict[str, str], t: str, values: Sequence[str]) -> list[int | None]:
    """Return the microseconds of JSON values in messages of a format; None for an error."""
    fields = [value if kind == "json" else _csv_field(value) for value in values]
    messages = [f'{{"a":{field}}}' if kind == "json" else field for field in fields]
    batch = get_format(kind, options).decode_batch(pa.array([message.encode() for message in messages]), f"a {t}")
    rows = batch.rows.flatten().field("a").cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    errors = [None] * len(messages) if batch.errors is None else batch.errors.to_pylist()
    found = iter(rows)
    return [next(found) if error is None else None for error in errors]


def _csv_field(value: str) -> str:
    text = json.loads(value) if value.startswith('"') else value
    return '"' + text.replace('"', '""') + '"'


# --- Java -----------------------------------------------------------------------------------------------

_SIGN_BEFORE_DIGITS = re.compile(r"[+-]\d{5,}")


def _answers() -> list[list[int | None]]:
    """Return what the kernel of this process reads of the recorded texts, as both types."""
    readers: dict[str, list[FormReader]] = {}
    found = []
    for pattern, text, *_ in _recorded():
        if pattern not in readers:
            forms = TimestampForms(parse_forms(pattern), zone_named("Europe/Berlin"))
            readers[pattern] = [
                FormReader(FlinkType(root, precision=6), forms) for root in ("TIMESTAMP", "TIMESTAMP_LTZ")
            ]
        found.append([reader.kernel.parse(text.encode()) for reader in readers[pattern]])
    return found


def test_java_reads_the_same_texts() -> None:
    compared = accepted = 0
    other = []
    for (pattern, text, local, moment), found in zip(_recorded(), _answers(), strict=True):
        wanted = [None if part == "-" else int(part.removeprefix("Berlin ")) for part in (local, moment)]
        if found != wanted:
            other.append((pattern, text))
        compared += 1
        accepted += local != "-"
    assert compared >= 4_300
    assert 2_000 <= accepted <= 3_000
    # only Java reads a year with a sign from digits without separators
    assert [pattern for pattern, _ in other] == ["yyyyMMddHHmmss"] * 3 + ["yyyyMMdd"]
    assert all(_SIGN_BEFORE_DIGITS.match(text) for _, text in other)


def test_the_compiled_kernel_reads_what_its_source_reads() -> None:
    command = [sys.executable, "-c", f"from {__name__} import _print_answers; _print_answers()"]
    environment = {**os.environ, "KVFORMAT_KERNEL": "python"}
    run = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    kernel, answers = pickle.loads(run.stdout)
    assert kernel == "python"
    assert answers == _answers()


def _print_answers() -> None:
    from kvformat.codecs import KERNEL

    sys.stdout.buffer.write(pickle.dumps((KERNEL, _answers())))


def test_a_text_is_read_as_if_no_other_was_read_before() -> None:
    """Also a text that matches only the beginning of a form, and one that has fewer parts than the text before."""
    patterns = "dd/MM/yyyy hh:mm:ss a; dd/MM/yyyy HH:mm:ss.SSS; dd.MM.yyyy HH:mm; dd-MM-yyyy HH; yyyy年MM月dd日; "
    patterns += "yyyy-MM-dd HH:mm:ss[.SSS]XXX; yyyyMMdd VV; SQL; epoch-seconds"
    texts = ["29/02/2024 03:04:05 PM", "29/02/2024 15:04:05.678", "29.02.2024 15:04", "29-02-2024 15", "2024年02月29日"]
    texts += [
        "2024-02-29 15:04:05.678+02:00",
        "2024-02-29 15:04:05+09:00",
        "2024-02-29 15:04:05",
        "20240229 Asia/Tokyo",
    ]
    texts += ["29/02/2024 03:04:05 XM", "29/02/2024 15:04:05.", "2024-02-29 15:04:05.678+02:0", "20240230 UTC", "17"]
    for root in ("TIMESTAMP", "TIMESTAMP_LTZ"):

        def new(root: str = root) -> FormReader:
            forms = TimestampForms(parse_forms(patterns), zone_named("Europe/Berlin"))
            return FormReader(FlinkType(root, precision=6), forms)

        wanted = [new().kernel.parse(text.encode()) for text in texts]
        assert [moment is None for moment in wanted] == [False] * 9 + [True] * 4 + [False]
        for first in texts:
            reader = new()
            for text, moment in zip(texts, wanted, strict=True):
                reader.kernel.parse(first.encode())
                assert reader.kernel.parse(text.encode()) == moment, (first, text)


_TIME = 45_015_000_000  # 12:30:15


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("[ HH:mm:ss]", {"": 0, " 12:30:15": _TIME, " 12:30": None, " 12:30:15 ": None}),
        ("[ HH:mm:ss[.SSS]]", {"": 0, " 12:30:15": _TIME, " 12:30:15.5": _TIME + 500_000, ".5": None}),
        ("[[ HH:mm:ss][ X]]", {"": 0, " 12:30:15": _TIME, " 12:30:15 Z": _TIME, " -01": 3_600_000_000}),
        ("[][ HH:mm:ss[]][]", {"": 0, " 12:30:15": _TIME}),
        ("[' o''clock:'HH:mm:ss]", {"": 0, " o'clock:12:30:15": _TIME, " oclock:12:30:15": None}),
        ("['T'HH:mm:ss'.']['x']", {"": 0, "T12:30:15.": _TIME, "T12:30:15.x": _TIME, "x": 0, "T12:30:15": None}),
    ],
)
def test_an_optional_section_may_have_a_time_of_day(pattern: str, texts: dict[str, int | None]) -> None:
    forms = TimestampForms(parse_forms(f"yyyy-MM-dd{pattern}"), 0)
    read = FormReader(FlinkType("TIMESTAMP_LTZ", precision=6), forms).kernel.parse
    assert {text: read(f"1970-01-01{text}".encode()) for text in texts} == texts


@pytest.mark.parametrize(
    ("pattern", "text", "micros"),
    [
        ("[ HH:mm:ss'x'][ '12:30:15']", " 12:30:15", 0),
        ("[ HH:mm:s'x'][ '12:30:15']", " 12:30:15", 0),
        ("[ HH:mm'x'][ '12:30']", " 12:30", 0),
        ("[ hha'x'][ '11PM']", " 11PM", 0),
        (" HH:mm:ss[.SSSX][.SSSSSSX]", " 00:00:01.123456+01", -3_598_876_544),
        ("[ XXX'x'][ '+02:00']", " +02:00", 0),
        ("[ XXX'x'][ XXXXX]", " +02:00:30", -7_230_000_000),
        ("[ VV' x'][ 'Asia/Tokyo']", " Asia/Tokyo", 0),
    ],
)
def test_a_section_that_does_not_match_leaves_nothing(pattern: str, text: str, micros: int) -> None:
    forms = TimestampForms(parse_forms(f"yyyy-MM-dd{pattern}"), 0)
    read = FormReader(FlinkType("TIMESTAMP_LTZ", precision=6), forms).kernel.parse
    assert read(f"1970-01-01{text}".encode()) == micros


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_years_beyond_64_bits_and_minus_zero_are_errors(kind: str) -> None:
    last = 106_751_990  # days; the next one has no microseconds in 64 bits with an offset of 18 hours
    days = {"+294247-01-09": last, "+294247-01-10": None, "+99999999-01-01": None}
    days |= {"-290308-12-23": -last, "-290308-12-22": None, "-99999999-01-01": None, "-0000-01-01": None}
    wanted = [None if day is None else day * 86_400_000_000 for day in days.values()]
    for form in ("yyyy-MM-dd", "yyyy-MM-dd[ HH:mm:ss]"):
        assert _read(kind, {PATTERNS: form}, "TIMESTAMP(3)", [f'"{day}"' for day in days]) == wanted


# --- Python ---------------------------------------------------------------------------------------------


def _moment(rng: random.Random) -> dt.datetime:
    """Return a random local time, often near a change of the clocks in Europe, Australia or America."""
    day = rng.choice(
        [dt.datetime(2024, 3, 31), dt.datetime(2024, 10, 27), dt.datetime(2024, 4, 7), dt.datetime(2024, 11, 3)]
    )
    if rng.random() < 0.5:
        day = dt.datetime(rng.randint(1800, 2200), rng.randint(1, 12), rng.randint(1, 28))
    return day + dt.timedelta(microseconds=rng.randrange(86_400_000_000))


_Write = Callable[[dt.datetime], str]
_TEXTS: dict[str, _Write] = {
    "yyyy-MM-dd HH:mm:ss.SSSSSS": lambda at: f"{at:%Y-%m-%d %H:%M:%S.%f}",
    "SQL": lambda at: f"{at:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip("."),
    "ISO-8601": lambda at: at.isoformat(),
    "dd/MM/yyyy hh:mm:ss,SSSSSS a": lambda at: f"{at:%d/%m/%Y %I:%M:%S,%f %p}",
    "yyyyMMddHHmmssSSSSSS": lambda at: f"{at:%Y%m%d%H%M%S%f}",
    "d.M.yyyy 'um' H:mm:ss.SSSSSS": lambda at: f"{at.day}.{at.month}.{at.year} um {at.hour}:{at:%M:%S.%f}",
}
_OFFSETS: dict[str, Callable[[dt.timedelta], str]] = {
    "XXX": lambda offset: "Z" if not offset else _offset(offset, ":"),
    "xxx": lambda offset: _offset(offset, ":"),
    "xx": lambda offset: _offset(offset, ""),
    "[XXX][xx]": lambda offset: _offset(offset, ""),
}


def _offset(offset: dt.timedelta, between: str) -> str:
    minutes = abs(int(offset.total_seconds())) // 60
    return f"{'-' if offset < dt.timedelta() else '+'}{minutes // 60:02}{between}{minutes % 60:02}"


def _micros(local: dt.datetime, offset: dt.timedelta | None = None) -> int:
    return (local - (offset or dt.timedelta()) - _EPOCH) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_random_local_times(kind: str) -> None:
    """Texts without an offset: as TIMESTAMP the local time, as TIMESTAMP_LTZ that of the option's zone."""
    rng, compared = random.Random(f"local {kind}"), 0
    for name, write in _TEXTS.items():
        locals_ = [_moment(rng) for _ in range(RANDOM // len(_TEXTS))]
        texts = [json.dumps(write(local)) for local in locals_]
        wanted = [_micros(local) for local in locals_]
        assert _read(kind, {PATTERNS: f"epoch-millis; {name}"}, "TIMESTAMP(3)", texts) == wanted, name
        assert set(_read(kind, {PATTERNS: name}, "TIMESTAMP_LTZ(3)", texts)) == {None}, "without a zone"
        for zone in ("Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "+05:30"):
            tz = dt.timezone(dt.timedelta(hours=5.5)) if zone[0] == "+" else ZoneInfo(zone)
            moments = [_micros(local, local.replace(tzinfo=tz).utcoffset()) for local in locals_]
            assert _read(kind, {PATTERNS: name, ZONE: zone}, "TIMESTAMP_LTZ(3)", texts) == moments, (name, zone)
            compared += len(texts)
    assert compared >= 4 * 5_000


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_random_offsets_and_names_of_zones(kind: str) -> None:
    rng, compared = random.Random(f"zoned {kind}"), 0
    zones = ["Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "UTC", "Australia/Lord_Howe"]
    for letters in (*_OFFSETS, "VV"):
        pattern = f"yyyy-MM-dd'T'HH:mm:ss.SSSSSS{' ' * (letters == 'VV')}{letters}"
        texts, locals_, moments = [], [], []
        for _ in range(RANDOM // 5):
            local, zone = _moment(rng), rng.choice(zones)
            offset = dt.timedelta(minutes=rng.randint(-18 * 60, 18 * 60))
            tail = f" {zone}" if letters == "VV" else _OFFSETS[letters](offset)
            if letters == "VV":
                offset = local.replace(tzinfo=ZoneInfo(zone)).utcoffset() or dt.timedelta()
            texts.append(f'"{local:%Y-%m-%dT%H:%M:%S.%f}{tail}"')
            locals_.append(_micros(local))
            moments.append(_micros(local, offset))
        assert _read(kind, {PATTERNS: pattern}, _TYPES[0], texts) == locals_
        assert _read(kind, {PATTERNS: pattern, ZONE: "Asia/Tokyo"}, _TYPES[1], texts) == moments
        if letters != "VV":
            assert _read(kind, {PATTERNS: "epoch-seconds;SQL;ISO-8601"}, _TYPES[1], texts) == moments
        compared += len(texts)
    assert compared >= 5_000


def _numbers(rng: random.Random) -> Iterator[str]:
    for _ in range(RANDOM):
        number = Decimal(rng.randrange(-(10 ** rng.randint(1, 24)), 10 ** rng.randint(1, 24)))
        number = number.scaleb(-rng.choice([0, 0, 0, 3, 6, rng.randint(1, 30)]))
        yield f"{number:E}" if rng.random() < 0.1 else f"{number:f}"


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("name", EPOCHS)
def test_random_numbers(kind: str, name: str) -> None:
    """Numbers, and texts of numbers, in one unit: rounded down to microseconds, an error beyond 64 bits."""
    numbers = list(_numbers(random.Random(f"{kind} {name}")))
    wanted = []
    for number in numbers:
        micros = int(Decimal(number).scaleb(EPOCHS[name]).to_integral_value(ROUND_FLOOR))
        wanted.append(micros if -(2**63) < micros < 2**63 else None)
    for t in _TYPES:
        assert _read(kind, {PATTERNS: name, ZONE: "Europe/Berlin"}, t, numbers) == wanted
        assert _read(kind, {PATTERNS: f"SQL; {name}"}, t, [f'"{number}"' for number in numbers]) == wanted
    assert sum(micros is not None for micros in wanted) > RANDOM // 3
    assert None in wanted


@pytest.mark.parametrize("name", EPOCHS)
def test_a_number_of_any_size_is_rounded_down(name: str) -> None:
    numbers = {"1e-39": 0, "-1e-39": -1, "1e-50": 0, "-1e-50": -1, "-1E-999": -1, "0e99": 0, "-0e-99": 0, "1e50": None}
    for values in ([*numbers], [f'"{number}"' for number in numbers]):
        assert _read("json", {PATTERNS: name}, "TIMESTAMP(3)", values) == [*numbers.values()]


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize(
    "text",
    [
        *("1.", "-1.", ".5", "-.5", ".", "-", "+1", "--1", "1-", "1.5.5", "1_0", "0x1", "123456789."),
        *("1e1_0", "1_0e1", "1.e3", ".5e3", "e3", "1e", "1e+", "1e3.", "1e3 0", "1e\u0663", "1e3\u00a0", "1e3\u2003"),
        *("1234567890123456789.", "1234567890123456789_0", "NaN", "Infinity"),
    ],
)
def test_a_text_is_a_number_only_if_json_has_that_number(kind: str, text: str) -> None:
    values = ['"1"', json.dumps(text, ensure_ascii=False), '"1E0"']
    assert _read(kind, {PATTERNS: "epoch-micros"}, "TIMESTAMP(6)", values) == [1, None, 1]


def test_units_are_told_apart_by_the_size_of_numbers() -> None:
    moments = [dt.datetime(1973, 3, 4), dt.datetime(2024, 2, 29), dt.datetime(5138, 1, 1)]
    for moment in moments:
        seconds = _micros(moment) // 1_000_000
        texts = [f"{seconds}{zeros}" for zeros in ("", "000", "000000", "000000000")]
        names = "; ".join(reversed(EPOCHS))
        assert _read("json", {PATTERNS: names}, "TIMESTAMP(3)", texts) == [_micros(moment)] * 4
        # a unit that is not in the list is an error, not another moment
        assert _read("json", {PATTERNS: "epoch-millis; epoch-micros"}, "TIMESTAMP(3)", texts[-1:]) == [None]
        assert _read("json", {PATTERNS: "epoch-seconds; epoch-micros"}, "TIMESTAMP(3)", texts[1:2]) == [None]
    both = {PATTERNS: "epoch-millis; epoch-seconds"}
    assert _read("json", both, "TIMESTAMP(3)", ["0", "-0.5", "99999999999", "100000000000"]) == [
        *(0, -500_000),
        *(99_999_999_999_000_000, 100_000_000_000_000),
    ]


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize(("digits", "coarse"), [(11, "epoch-seconds"), (14, "epoch-millis"), (17, "epoch-micros")])
def test_a_number_of_one_digit_more_has_the_finer_unit_in_any_order_of_the_list(
    kind: str, digits: int, coarse: str
) -> None:
    fine = [*EPOCHS][[*EPOCHS].index(coarse) + 1]
    numbers = {f"{sign}{number}": coarse for number in ("9" * digits, f"1{'0' * (digits - 1)}") for sign in ("", "-")}
    numbers |= {f"{sign}1{'0' * digits}{rest}": fine for sign in ("", "-") for rest in ("", ".0", ".5")}
    micros = [Decimal(number).scaleb(EPOCHS[unit]) for number, unit in numbers.items()]
    wanted = [int(number.to_integral_value(ROUND_FLOOR)) for number in micros]
    for names in (f"{coarse}; {fine}", f"{fine}; {coarse}"):
        for values in ([*numbers], [f'"{number}"' for number in numbers]):
            assert _read(kind, {PATTERNS: names}, "TIMESTAMP(3)", values) == wanted, names


def test_gaps_and_overlaps_follow_java() -> None:
    berlin = zone_named("Europe/Berlin")
    in_gap, before, twice = (
        _micros(dt.datetime(2024, *rest)) for rest in ((3, 31, 2, 30), (3, 31, 1, 30), (10, 27, 2, 30))
    )
    assert offset_of_local(berlin, in_gap) == offset_of_local(berlin, before) == 3600
    assert offset_of_local(berlin, twice) == 7200
    assert offset_of_moment(berlin, twice - 3_600_000_000) == 3600


def test_zones_of_distant_years() -> None:
    """Before the year 1 the first offset counts. After 9999, the rules repeat every 400 years, as the calendar does."""
    berlin, cycle = zone_named("Europe/Berlin"), 146_097 * 86_400 * 1_000_000
    assert offset_of_local(berlin, -(10**17)) == offset_of_moment(berlin, -(10**17)) == 3208
    for month, offset in ((1, 3600), (7, 7200)):
        micros = _micros(dt.datetime(2024, month, 15, 12))
        for cycles in (19, 20, 500):
            assert offset_of_local(berlin, micros + cycles * cycle) == offset, (month, cycles)
            assert offset_of_moment(berlin, micros + cycles * cycle) == offset, (month, cycles)
