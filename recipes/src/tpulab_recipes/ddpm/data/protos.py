"""TensorFlow's `Example` and `TensorProto` messages, described here so that TensorFlow need not be installed.

Field numbers: tensorflow/core/example/{example,feature}.proto,
tensorflow/core/framework/{tensor,tensor_shape}.proto.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
#: DataType of tensorflow/core/framework/types.proto.
_TENSOR_TYPES: dict[int, Any] = {
    1: np.float32,
    2: np.float64,
    3: np.int32,
    4: np.uint8,
    9: np.int64,
    14: ml_dtypes.bfloat16,
    19: np.float16,
}
_TYPE_NUMBERS = {np.dtype(kind): number for number, kind in _TENSOR_TYPES.items()}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="tpulab_recipes/example.proto", package="tpulab_recipes", syntax="proto3"
    )

    def message(name: str, parent: Any = None) -> Any:
        return (parent.nested_type if parent is not None else file.message_type).add(name=name)

    def field(owner: Any, name: str, number: int, kind: int, **more: Any) -> None:
        label = _FIELD.LABEL_REPEATED if more.pop("repeated", False) else _FIELD.LABEL_OPTIONAL
        owner.field.add(name=name, number=number, type=kind, label=label, **more)

    def nested(owner: Any, name: str, number: int, kind: str, **more: Any) -> None:
        field(owner, name, number, _FIELD.TYPE_MESSAGE, type_name=f".tpulab_recipes.{kind}", **more)

    for name, kind in (
        ("BytesList", _FIELD.TYPE_BYTES),
        ("FloatList", _FIELD.TYPE_FLOAT),
        ("Int64List", _FIELD.TYPE_INT64),
    ):
        field(message(name), "value", 1, kind, repeated=True)
    feature = message("Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(
        (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")), start=1
    ):
        nested(feature, name, number, kind, oneof_index=0)
    features = message("Features")
    entry = message("FeatureEntry", features)
    entry.options.map_entry = True
    field(entry, "key", 1, _FIELD.TYPE_STRING)
    nested(entry, "value", 2, "Feature")
    nested(features, "feature", 1, "Features.FeatureEntry", repeated=True)
    nested(message("Example"), "features", 1, "Features")
    shape = message("TensorShape")
    field(message("Dim", shape), "size", 1, _FIELD.TYPE_INT64)
    nested(shape, "dim", 2, "TensorShape.Dim", repeated=True)
    tensor = message("Tensor")
    field(tensor, "dtype", 1, _FIELD.TYPE_INT32)
    nested(tensor, "tensor_shape", 2, "TensorShape")
    field(tensor, "tensor_content", 4, _FIELD.TYPE_BYTES)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tpulab_recipes.{name}"))
        for name in ("Example", "Tensor")
    }


_CLASSES = _messages()


def encode_example(features: dict[str, Any]) -> bytes:
    """An `Example`. A feature is bytes or text, an int, or a float (or a list of one of them)."""
    example = _CLASSES["Example"]()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[name]
        if all(isinstance(item, bytes | str) for item in values):
            feature.bytes_list.value.extend(
                item.encode() if isinstance(item, str) else item for item in values
            )
        elif all(isinstance(item, int | np.integer) for item in values):
            feature.int64_list.value.extend(int(item) for item in values)
        else:
            feature.float_list.value.extend(float(item) for item in values)
    return bytes(example.SerializeToString(deterministic=True))


def decode_example(data: bytes) -> dict[str, list[Any]]:
    """Name to values. Raises ValueError when this is no `Example`."""
    example = _CLASSES["Example"]()
    try:
        example.ParseFromString(data)
    except Exception as error:
        raise ValueError(f"not an Example message: {error}") from error
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in example.features.feature.items()
        if feature.WhichOneof("kind")
    }


def encode_tensor(array: np.ndarray) -> bytes:
    """What `tf.io.serialize_tensor` writes."""
    tensor = _CLASSES["Tensor"]()
    tensor.dtype = _TYPE_NUMBERS[array.dtype]
    # An empty shape is written too: a scalar is not a tensor of unknown rank.
    tensor.tensor_shape.SetInParent()
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = np.ascontiguousarray(array).tobytes()
    return bytes(tensor.SerializeToString(deterministic=True))


def decode_tensor(data: bytes) -> np.ndarray:
    """What `tf.io.parse_tensor` reads, for tensors with `tensor_content`."""
    tensor = _CLASSES["Tensor"]()
    try:
        tensor.ParseFromString(data)
    except Exception as error:
        raise ValueError(f"not a TensorProto message: {error}") from error
    kind = _TENSOR_TYPES.get(tensor.dtype)
    if kind is None:
        raise ValueError(f"tensors of type {tensor.dtype} are not read here")
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    return np.frombuffer(tensor.tensor_content, kind).reshape(shape)
