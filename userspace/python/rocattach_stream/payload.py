"""Payloads of frames: decompression, and messages of the stream's own schema."""

import functools
import math
import os

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from .frames import MAX_PAYLOAD_BYTES

try:  # Debian: python3-zstandard
    import zstandard
except ImportError:
    zstandard = None

CODEC_NONE = 0
CODEC_ZSTD = 2


class PayloadError(ValueError):
    """An intact frame whose payload makes no sense."""


class MissingModuleError(RuntimeError):
    """A module that this recording needs is not installed."""


def uncompress(codec, payload):
    """The payload as it was before compression; at most MAX_PAYLOAD_BYTES."""
    if codec == CODEC_NONE:
        return payload
    if codec != CODEC_ZSTD:
        raise PayloadError(f"codec {codec} is not known")
    if zstandard is None:
        raise MissingModuleError(
            "this recording is compressed: reading it needs the module zstandard "
            "(Debian: python3-zstandard)"
        )
    try:
        size = zstandard.frame_content_size(payload)
    except zstandard.ZstdError:
        size = -1
    if size < 0:
        raise PayloadError("compressed payload does not state its size")
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadError(f"compressed payload claims {size} bytes")
    if size == 0:
        return b""
    try:
        return _decompressor().decompress(payload, max_output_size=size)
    except zstandard.ZstdError as error:
        raise PayloadError(f"decompression failed: {error}") from error


@functools.lru_cache(maxsize=None)
def _decompressor():
    return zstandard.ZstdDecompressor()


@functools.lru_cache(maxsize=None)
def _pool():
    """The schemas, as the build puts them beside this file: not generated code, which
    would tie the module to one version of protobuf."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas.binpb")
    pool = descriptor_pool.DescriptorPool()
    with open(path, "rb") as file:
        for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.AddSerializedFile(proto.SerializeToString())
    return pool


@functools.lru_cache(maxsize=None)
def message_class(name):
    """The class of a message of package rocattach.v1."""
    descriptor = _pool().FindMessageTypeByName("rocattach.v1." + name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool()).GetPrototype(descriptor)


def parse(name, payload):
    try:
        return message_class(name).FromString(payload)
    except DecodeError as error:
        raise PayloadError(f"payload is not a {name}") from error


@functools.lru_cache(maxsize=None)
def _short_names(enum_name):
    enum = _pool().FindEnumTypeByName(enum_name)
    prefix = "".join("_" + c if c.isupper() else c for c in enum.name)
    prefix = prefix.lstrip("_").upper() + "_"
    return {
        value.number: value.name[len(prefix) :].lower()
        if value.name.startswith(prefix)
        else value.name.lower()
        for value in enum.values
    }


def short_name(enum_name, number):
    """The word for a value of an enum of package rocattach.v1: "host_to_device"."""
    return _short_names("rocattach.v1." + enum_name).get(number, str(number))


def _plain(field, value):
    """A field's value as numbers, text, lists and dictionaries."""
    if field.type == field.TYPE_MESSAGE:
        return to_dict(value)
    if field.type == field.TYPE_ENUM:
        name = field.enum_type.full_name
        return _short_names(name).get(value, str(value))
    if field.type == field.TYPE_BYTES:
        return value.hex()
    if field.type == field.TYPE_DOUBLE and not math.isfinite(value):
        return None
    return value


def to_dict(message):
    """All fields of a message, those with default values too; enums as words, bytes in
    hexadecimal digits. The stream's own types are left out."""
    out = {}
    for field in message.DESCRIPTOR.fields:
        is_message = field.type == field.TYPE_MESSAGE
        if is_message and field.message_type.file.package == "google.protobuf":
            continue
        if field.label == field.LABEL_REPEATED:
            out[field.name] = [_plain(field, v) for v in getattr(message, field.name)]
        elif not is_message or message.HasField(field.name):
            out[field.name] = _plain(field, getattr(message, field.name))
    return out
