"""The format `protobuf`."""

from kvformat.codecs.protobuf.format import ProtobufFormat as ProtobufFormat
