"""TensorFlow's `Example` and `TensorProto` messages, described here so that TensorFlow need not be installed.

Field numbers: tensorflow/core/example/{example,feature}.proto,
tensorflow/core/framework/{tensor,tensor_shape}.proto.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from google.protobuf.message import DecodeError

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.messages import message_classes

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


_CLASSES = message_classes(
    "tpulab_recipes.example",
    {
        "BytesList": ("value 1 bytes[]",),
        "FloatList": ("value 1 float[]",),
        "Int64List": ("value 1 int64[]",),
        "Feature": ("bytes_list 1 BytesList|", "float_list 2 FloatList|", "int64_list 3 Int64List|"),
        # A map on the wire is a list of such entries.
        "Features.FeatureEntry": ("key 1 string", "value 2 Feature"),
        "Features": ("feature 1 Features.FeatureEntry[]",),
        "Example": ("features 1 Features",),
        "Dim": ("size 1 int64",),
        "TensorShape": ("dim 2 Dim[]",),
        "Tensor": ("dtype 1 int32", "tensor_shape 2 TensorShape", "tensor_content 4 bytes"),
    },
)


def _parsed(kind: str, data: bytes, name: str) -> Any:
    message = _CLASSES[kind]()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise DataError(f"{name} is no message of the kind {kind}: {error}.") from error
    return message


def encode_example(features: dict[str, Any]) -> bytes:
    """An `Example`. A feature is bytes or text, an int, or a float (or a list of one of them)."""
    example = _CLASSES["Example"]()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[name]
        if all(isinstance(item, bytes | str) for item in values):
            feature.bytes_list.value.extend(
                # Names of files and JSON may hold halves of characters, which UTF-8 has no bytes for.
                item.encode(errors="replace") if isinstance(item, str) else item
                for item in values
            )
        elif all(isinstance(item, int | np.integer) for item in values):
            feature.int64_list.value.extend(int(item) for item in values)
        else:
            feature.float_list.value.extend(float(item) for item in values)
    return bytes(example.SerializeToString(deterministic=True))


def decode_example(data: bytes, name: str = "the record") -> dict[str, list[Any]]:
    """Key to values. Raises `DataError`, with the name, when this is no `Example`."""
    example = _parsed("Example", data, name)
    return {
        key: list(getattr(feature, feature.WhichOneof("kind")).value)
        for key, feature in example.features.feature.items()
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


def decode_tensor(data: bytes, name: str = "the record") -> np.ndarray:
    """What `tf.io.parse_tensor` reads, for tensors with `tensor_content`."""
    tensor = _parsed("Tensor", data, name)
    kind = _TENSOR_TYPES.get(tensor.dtype)
    if kind is None:
        raise DataError(f"{name} has a tensor of the type {tensor.dtype}, which is not read here.")
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    return np.frombuffer(tensor.tensor_content, kind).reshape(shape)
