"""Encoded images on disk: one TFRecord `Example` for each, every array a bfloat16 `TensorProto`.

Keys: `image` (latents), `clip_emb` and `t5_emb` (text states without the padding), `clip_image_emb`,
`aesth_score`, `height`, `width`; `class`, a whole number (bfloat16 tells 256 of them apart); and `txt`, the
caption itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.ddpm.config import Config, context_shapes
from tpulab_recipes.ddpm.data.protos import decode_example, decode_tensor, encode_example, encode_tensor

SUFFIX = ".tfrecord"


def encode_record(arrays: Mapping[str, Any], caption: str) -> bytes:
    """One image as it lies on disk. Text states come without rows of padding."""
    features: dict[str, Any] = {
        name: int(value) if name == "class" else encode_tensor(np.asarray(value, ml_dtypes.bfloat16))
        for name, value in arrays.items()
    }
    return encode_example(features | {"txt": caption})


def decode_record(data: bytes, config: Config, name: str) -> dict[str, np.ndarray]:
    """What training needs of one record: latents in fp32, the rest as stored, text states padded with
    zeros."""
    wanted = {"image": config.in_dimensions} | context_shapes(config.model.conditioning)
    try:
        features = decode_example(data)
    except ValueError as error:
        raise DataError(f"{name}: {error}.") from error
    record: dict[str, np.ndarray] = {}
    for key, shape in wanted.items():
        if key not in features:
            known = ", ".join(sorted(features)) or "nothing"
            raise DataError(
                f"{name} has no {key!r} (it holds {known}); encode it again, or switch that conditioning "
                "off in model.conditioning."
            )
        value = (
            decode_tensor(features[key][0])
            if isinstance(features[key][0], bytes)
            else np.asarray(features[key][0])
        )
        record[key] = _fit(value, shape, key, name)
    record["image"] = record["image"].astype(np.float32)
    if "class" in record:
        record["class"] = record["class"].astype(np.int32)
    return record


def _fit(value: np.ndarray, shape: tuple[int, ...], key: str, name: str) -> np.ndarray:
    if key in ("clip_emb", "t5_emb") and value.ndim == 2 and value.shape[1:] == shape[1:]:
        states = np.zeros(shape, value.dtype)
        length = min(len(value), shape[0])
        states[:length] = value[:length]
        return states
    if value.shape != shape:
        raise DataError(
            f"{name}: {key!r} has the shape {value.shape}, but the configuration expects {shape}; it was "
            "encoded for another configuration."
        )
    return value
