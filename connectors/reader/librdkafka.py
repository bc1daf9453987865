"""The C functions of the librdkafka that confluent-kafka contains, for the compiled loop.

    found = librdkafka()    the functions, or a text that says why they can't be used

confluent-kafka is linked to librdkafka, so a lookup in its module also finds librdkafka's public functions. They are
not found on Windows, or in a build that hides them.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final

_P: Final = ctypes.c_void_p
_TEXT: Final = ctypes.c_char_p
# The functions with their result and arguments, as rdkafka.h declares them.
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "assign": (ctypes.c_int, _P, _P),
    "conf_destroy": (None, _P),
    "conf_new": (_P,),
    "conf_set": (ctypes.c_int, _P, _TEXT, _TEXT, _P, ctypes.c_size_t),
    "conf_set_error_cb": (None, _P, _P),
    "conf_set_oauthbearer_token_refresh_cb": (None, _P, _P),
    "consumer_close": (ctypes.c_int, _P),
    "destroy": (None, _P),
    "err2name": (_TEXT, ctypes.c_int),
    "err2str": (_TEXT, ctypes.c_int),
    "message_errstr": (_TEXT, _P),
    "metadata": (ctypes.c_int, _P, ctypes.c_int, _P, _P, ctypes.c_int),
    "metadata_destroy": (None, _P),
    "oauthbearer_set_token": (
        *(ctypes.c_int, _P, _TEXT, ctypes.c_int64, _TEXT, ctypes.POINTER(_TEXT), ctypes.c_size_t, _P, ctypes.c_size_t),
    ),
    "oauthbearer_set_token_failure": (ctypes.c_int, _P, _TEXT),
    "new": (_P, ctypes.c_int, _P, _P, ctypes.c_size_t),
    "poll_set_consumer": (ctypes.c_int, _P),
    "position": (ctypes.c_int, _P, _P),
    "query_watermark_offsets": (ctypes.c_int, _P, _TEXT, ctypes.c_int32, _P, _P, ctypes.c_int),
    "queue_destroy": (None, _P),
    "queue_get_consumer": (_P, _P),
    "topic_name": (_TEXT, _P),
    "topic_partition_list_add": (_P, _P, _TEXT, ctypes.c_int32),
    "topic_partition_list_destroy": (None, _P),
    "topic_partition_list_new": (_P, ctypes.c_int),
    "topic_partition_list_set_offset": (ctypes.c_int, _P, _TEXT, ctypes.c_int32, ctypes.c_int64),
    "version": (ctypes.c_int,),
}
_OLDEST, _NEWEST = 0x02010000, 0x03000000  # 2.1 tells the leader epoch; another major version may change structures
ERROR_CALLBACK: Final = ctypes.CFUNCTYPE(None, _P, ctypes.c_int, _TEXT, _P)
"""The type of the function that gets errors of connections: client, number, text, None."""
TOKEN_CALLBACK: Final = ctypes.CFUNCTYPE(None, _P, _TEXT, _P)
"""The type of the function that is called when a client needs a token: client, setting, None."""


class _TopicPartition(ctypes.Structure):
    _fields_ = (
        ("topic", _TEXT),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", _P),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", _P),
        ("err", ctypes.c_int),
        ("own", _P),
    )


class TopicPartitions(ctypes.Structure):
    """`rd_kafka_topic_partition_list_t` of rdkafka.h."""

    _fields_ = (("count", ctypes.c_int), ("size", ctypes.c_int), ("elements", ctypes.POINTER(_TopicPartition)))


class Librdkafka:
    """librdkafka's functions as attributes without `rd_kafka_`, and the addresses of those that the kernel calls."""

    def __init__(self, loaded: Any, kernel: tuple[str, ...]) -> None:
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(loaded, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.addresses = [ctypes.cast(getattr(loaded, name), _P).value or 0 for name in kernel]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def name_of(self, error: int) -> str:
        """Return the name of an error, such as `_TRANSPORT`."""
        return str(self.err2name(error).decode())


@functools.cache
def librdkafka() -> Librdkafka | str:
    """Return librdkafka's functions, or why the compiled loop can't run with them."""
    from kvformat.codecs._kernel import COMPILED, WHY
    from kvformat.codecs._kernel.librdkafka import FUNCTIONS

    if not COMPILED:
        return f"the kernel is not compiled{': ' * bool(WHY)}{WHY}"
    if ctypes.sizeof(_P) != ctypes.sizeof(ctypes.c_uint64):
        return "addresses do not have 64 bits"
    try:
        from confluent_kafka import cimpl

        library = Librdkafka(ctypes.CDLL(cimpl.__file__), FUNCTIONS)
    except (ImportError, OSError, AttributeError) as error:
        return f"confluent-kafka does not give librdkafka's functions: {error}"
    version = library.version()
    if not _OLDEST <= version < _NEWEST:
        return f"librdkafka has version {version >> 24}.{version >> 16 & 255}, and 2.1 to 2.255 are known"
    return library
