"""A producer of librdkafka's C functions, for header keys that are not UTF-8: confluent-kafka can't write them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from confluent_kafka import cimpl

_P = ctypes.c_void_p
_TOPIC, _VALUE, _HEADERS, _END = 1, 4, 10, 0  # rd_kafka_vtype_t


def send(bootstrap: str, topic: str, value: bytes, headers: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Write one record."""
    library = ctypes.CDLL(cimpl.__file__)
    for name, result in (("conf_new", _P), ("new", _P), ("headers_new", _P), ("flush", ctypes.c_int)):
        getattr(library, f"rd_kafka_{name}").restype = result
    settings, text = _P(library.rd_kafka_conf_new()), ctypes.create_string_buffer(512)
    library.rd_kafka_conf_set(settings, b"bootstrap.servers", bootstrap.encode(), text, ctypes.c_size_t(512))
    client = _P(library.rd_kafka_new(0, settings, text, ctypes.c_size_t(512)))
    written = _P(library.rd_kafka_headers_new(ctypes.c_size_t(len(headers))))
    for key, content in headers:
        size = -1 if content is None else len(content)
        library.rd_kafka_header_add(written, key, ctypes.c_ssize_t(len(key)), content, ctypes.c_ssize_t(size))
    message = (ctypes.c_char_p(value), ctypes.c_size_t(len(value)))
    assert (
        library.rd_kafka_producev(
            client, _TOPIC, ctypes.c_char_p(topic.encode()), _VALUE, *message, _HEADERS, written, _END
        )
        == 0
    )
    assert library.rd_kafka_flush(client, 30_000) == 0
    library.rd_kafka_destroy(client)
