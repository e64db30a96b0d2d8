"""Protobuf messages from a short table, so that no package with their generated classes need be installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto


def message_classes(package: str, messages: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A class for each of these messages.

    Args:
        package: a name that no other table has.
        messages: fields as `name number type`, by the name of the message. `[]` behind a type: repeated; `|`:
            one of these; a type with a capital: that message. `Outer.Entry` is an entry of a map in `Outer`,
            which comes before it.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    made: dict[str, Any] = {}
    for full in sorted(messages, key=lambda name: "." in name):
        parent, _, name = full.rpartition(".")
        message = made[full] = made[parent].nested_type.add() if parent else file.message_type.add()
        message.name, message.options.map_entry = name, bool(parent)
        for field in messages[full]:
            label, number, kind = field.split()
            plain = kind.rstrip("[]|")
            repeated = _FIELD.LABEL_REPEATED if kind.endswith("[]") else _FIELD.LABEL_OPTIONAL
            added = message.field.add(name=label, number=int(number), label=repeated)
            if plain[0].isupper():
                added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{plain}"
            else:
                added.type = getattr(_FIELD, f"TYPE_{plain.upper()}")
            if kind.endswith("|"):
                if not message.oneof_decl:
                    message.oneof_decl.add(name="kind")
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }
