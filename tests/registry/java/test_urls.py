"""URLs as in Java 17."""

from __future__ import annotations

import pytest

from kvformat.registry.java.urls import UnsupportedUrlError, UrlError, decode_url, encode_url, parse_url


def test_the_parts_of_a_url() -> None:
    url = parse_url(" url:HTTPS://u:p@h.org:8080/a/../b;c?x=1?#f#g ")
    assert (url.protocol, url.host, url.authority) == ("https", "h.org", "u:p@h.org:8080")
    assert (url.user_info, url.path, url.query, url.ref) == ("u:p", "/a/../b;c", "x=1?", "f#g")
    assert url.file == "/a/../b;c?x=1?"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http:///p", ""),
        ("http://a@b@c/", ""),
        ("http://[::1]:8/", "[::1]"),
        ("http://[fe80::1%eth0]/", "[fe80::1%eth0]"),
        ("http://[1:2:3:4:5:6:7:8]/", "[1:2:3:4:5:6:7:8]"),
        ("http://[1:2:3:4:5:6:1.2.3.4]/", "[1:2:3:4:5:6:1.2.3.4]"),
        ("http://[1:2:3:4:5::1.2.3.4]/", "[1:2:3:4:5::1.2.3.4]"),
        ("http://h:", "h"),
        ("mailto:a@b", ""),
        ("http:////h/p", ""),
    ],
)
def test_hosts(text: str, host: str) -> None:
    assert parse_url(text).host == host


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "foo://h", "http://h:x/", "http://h:-2/", "http://h:99999999999/", "http://[::1", "http://[a]/"),
        *("http://[1:2:3:4::5:6:7:8]/", "http://[1:2:3:4:5:6:7:1.2.3.4]/", "http://[::ffff:1.2.3.256]/"),
        *("mailto: ", "http://a\tb/", "http://a\uff0fb/", "http://[1:2]/", "//h/p", "#http:x"),
    ],
)
def test_malformed_urls(text: str) -> None:
    with pytest.raises(UrlError):
        parse_url(text)


def test_the_query_of_an_address_begins_at_the_last_question_mark() -> None:
    url = parse_url("mailto:a?b?c#d")
    assert (url.path, url.query, url.ref) == ("a?b", "c", None)
    assert parse_url("mailto:a").query is None


def test_protocols_with_rules_of_their_own_are_not_supported() -> None:
    for text in ("jar:file:/x!/y", "jrt:/java.base", "jmod:/x"):
        with pytest.raises(UnsupportedUrlError):
            parse_url(text)


def test_escapes() -> None:
    assert encode_url("a ~*-_.é😀+") == "a+%7E*-_.%C3%A9%F0%9F%98%80%2B"
    assert decode_url("a+b%20c%C3%A4%c3%+1%-0") == "a b cä\ufffd\x01\0"
    for text in ("%", "%2", "%zz", "%-1", "%41%"):
        with pytest.raises(UrlError):
            decode_url(text)
