"""Records what Java's DateTimeFormatter reads of texts in many patterns: `fixtures/java-17/timestamp-forms.tsv.xz`.

    python -m tests.peer.timestamp_forms

It needs Java 17. The texts are random, from a fixed seed: right ones, fields that are out of range, other offsets and
names of zones, and characters that are left out, doubled or replaced.
"""

from __future__ import annotations

import lzma
import random
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FIXTURE = ROOT / "fixtures" / "java-17" / "timestamp-forms.tsv.xz"
PATTERNS = (
    *(
        "yyyy-MM-dd HH:mm:ss",
        "yyyy-MM-dd HH:mm:ss[.SSSSSS]",
        "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "yyyy-MM-dd'T'HH:mm:ss[X]",
    ),
    *("uuuu-MM-dd'T'HH:mm[:ss[.SSSSSSSSS]][XXX]", "dd/MM/yyyy hh:mm:ss a", "d.M.yyyy H:m", "MM/dd/yy h:mm a"),
    *("yyyyMMddHHmmss", "yyyyMMddHHmmssSSS", "yyyyMMdd", "yyyy-MM-dd", "yyyy-MM-dd[ HH:mm[:ss]]", "yyMMdd HHmmss"),
    *(
        "yyyy-MM-dd HH:mm:ss VV",
        "yyyy-MM-dd'T'HH:mm:ssXXX'['VV']'",
        "yyyy-MM-dd HH:mm:ss[ VV][ xx]",
        "yyyy/M/d H:mm:ssZ",
    ),
    *("yyyy-MM-dd HH:mm:ssx", "yyyy-MM-dd HH:mm:ssxxx", "yyyy-MM-dd HH:mm:ssXX", "yyyy-MM-dd HH:mm:ssXXXXX"),
    *(
        "yyyy-MM-dd HH:mm:ss[XXX][XX][X]",
        "'at' yyyy-MM-dd, HH''mm''ss",
        "HH:mm:ss,SSS dd-MM-yyyy",
        "yyyy年MM月dd日 HH:mm",
    ),
    *("dd.MM.yyyy HH:mm:ssxxxxx", "yyyy-MM-dd HH:mm:ssZZZZZ", "yyyy-MM-dd HH:mm:ssXXXX", "yyyy-MM-dd HH:mm:ss.S"),
)
_TEXTS = 150
_OFFSETS = (
    *(
        "Z",
        "z",
        "+02:00",
        "+0200",
        "+02",
        "-05:30",
        "-0530",
        "+00:00",
        "-00:00",
        "+18:00",
        "+18:01",
        "+19",
        "+02:60",
        "+2",
    ),
    *("+0", "+01:02:03", "+010203", "-12", "GMT", "", "+14:00", "-0000"),
)
_ZONES = (
    *(
        "Europe/Berlin",
        "America/New_York",
        "UTC",
        "GMT",
        "Z",
        "+02:00",
        "-0330",
        "UTC+01:00",
        "GMT-3",
        "Asia/Kolkata",
        "Europe",
    ),
    *(
        "Europe/Berli",
        "europe/berlin",
        "Australia/Lord_Howe",
        "UT",
        "Etc/GMT+5",
        "",
        "Mars/Base",
        "UTC+1",
        "Europe/Dublin",
    ),
)
_EDGES = (
    "2024-03-31 02:30:00",
    "2024-10-27 02:30:00",
    "2024-03-10 02:15:00",
    "2024-11-03 01:15:00",
    "2024-04-07 01:45:00",
)
"""Local times in gaps and overlaps of Europe/Berlin, America/New_York and Australia/Lord_Howe."""
_TOKEN = re.compile(r"''|'[^']+'|([A-Za-z])\1*|.", re.DOTALL)


def cases() -> list[tuple[str, str]]:
    """Return the patterns and texts."""
    rng = random.Random(1)
    return [(pattern, text) for pattern in PATTERNS for text in sorted({_text(rng, pattern) for _ in range(_TEXTS)})]


def _text(rng: random.Random, pattern: str) -> str:
    while "[" in pattern:  # innermost sections first
        pattern = re.sub(
            r"(?<!')\[([^\[\]]*)\](?!')", lambda found: found[1] if rng.random() < 0.6 else "", pattern, count=1
        )
        if not re.search(r"(?<!')\[", pattern):
            break
    wild = rng.random() < 0.3
    year = rng.choice(
        ["1969", "2023", "2024", "1900", "2000", "9999", "0000"] + ["-0044", "+12024", "12024", "987"] * wild
    )
    values = {
        "y": year,
        "M": f"{rng.randint(0 if wild else 1, 13 if wild else 12):02}",
        "d": f"{rng.choice([0, 28, 29, 30, 31, 32]) if wild else rng.randint(1, 28):02}",
        "H": f"{rng.randint(0, 24 if wild else 23):02}",
        "h": f"{rng.randint(0, 13) if wild else rng.randint(1, 12):02}",
        "m": f"{rng.randint(0, 61 if wild else 59):02}",
        "s": f"{rng.randint(0, 61 if wild else 59):02}",
        "a": rng.choice(["AM", "PM", "am", "Pm", "XM"] if wild else ["AM", "PM"]),
    }
    if rng.random() < 0.15:
        edge = rng.choice(_EDGES)
        values |= dict(zip("yMdHms", re.split("[- :]", edge), strict=True))
    offset = rng.choice(_OFFSETS)
    text = "".join(_token(rng, found[0], values, offset) for found in _TOKEN.finditer(pattern))
    if rng.random() < 0.12 and text:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", text[at] * 2, "0", " ", "-"]) + text[at + 1 :]
    return text


def _token(rng: random.Random, token: str, values: dict[str, str], offset: str) -> str:
    letter = token[0]
    if letter == "'":
        return token[1:-1] or "'"
    if letter in "yu":
        return values["y"][-2:] if len(token) == 2 else values["y"]
    if letter in "XxZ":
        return offset
    if letter == "V":
        return rng.choice(_ZONES)
    if letter == "S":
        return "".join(rng.choices("0123456789", k=rng.choice([len(token)] * 3 + [1, len(token) + 1])))
    if letter not in values:
        return token
    return (
        values[letter].lstrip("0") or "0"
        if len(token) == 1 and letter != "a" and rng.random() < 0.8
        else values[letter]
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "cases.tsv"
        asked.write_text("".join(f"{pattern}\t{text}\n" for pattern, text in cases()), encoding="utf-8")
        source = Path(__file__).with_name("TimestampForms.java")
        run = subprocess.run(
            ["java", "-Dfile.encoding=UTF-8", str(source), str(asked)],
            stdout=subprocess.PIPE,
            check=True,
            encoding="utf-8",
        )
    FIXTURE.parent.mkdir(exist_ok=True)
    FIXTURE.write_bytes(lzma.compress(run.stdout.encode()))


if __name__ == "__main__":
    main()
