"""The golden arrays, and the models made from them."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tpulab_recipes.gpt_sovits.models import SynthesizerTrn

GOLDEN = Path(__file__).parent / "golden"


@cache
def golden(name: str) -> Any:
    return np.load(GOLDEN / f"{name}.npz", allow_pickle=False)


def meta(name: str) -> dict[str, Any]:
    return dict(json.loads(str(golden(name)["meta"])))


def published_keys(name: str) -> list[tuple[str, list[int]]]:
    """Keys and shapes of a full-size model, in the order of its state dict."""
    rows = [line.split("\t") for line in (GOLDEN / f"keys-{name}.tsv").read_text().splitlines()]
    return [(key, [int(each) for each in shape.split(",") if each]) for key, shape in rows]


def tensor(name: str, key: str) -> torch.Tensor:
    return torch.tensor(golden(name)[key])


def weights(name: str, module: str = "m") -> dict[str, torch.Tensor]:
    file, prefix = golden(name), f"p/{module}/"
    return {key.removeprefix(prefix): torch.tensor(file[key]) for key in file.files if key.startswith(prefix)}


def loaded(module: Any, name: str, part: str = "m") -> Any:
    module.load_state_dict(weights(name, part), strict=True)
    return module.eval()


def near(ours: Any, name: str, key: str, tolerance: float = 1e-5) -> None:
    """Within the bound of golden/README.md, and of the same shape; integers and booleans exactly."""
    reference = tensor(name, key)
    ours = ours.detach()
    assert ours.shape == reference.shape, (key, ours.shape, reference.shape)
    if not reference.is_floating_point():
        assert torch.equal(ours.to(reference.dtype), reference), key
        return
    bound = tolerance * max(1.0, float(reference.abs().max()))
    assert float((ours - reference).abs().max()) <= bound, (key, float((ours - reference).abs().max()))


def tiny_synthesizer(**changes: Any) -> SynthesizerTrn:
    """The reference's small model, with its parameters."""
    config = dict(meta("synthesizer")["config"])
    renamed = {"ssl": "ssl_channels"}
    config = {renamed.get(name, name): value for name, value in config.items()}
    model = SynthesizerTrn(**config | changes)
    return loaded(model, "synthesizer")  # type: ignore[no-any-return]


def recipe_value(key: str, shape: tuple[int, ...], base: float, scale: float, seed: str = "") -> Any:
    random = np.random.RandomState(zlib.crc32((seed + key).encode())).random_sample(shape)
    return torch.from_numpy(np.float32(base + scale * (random * 2 - 1)))


def full_size(model: torch.nn.Module) -> Any:
    """Parameters by the recipe of golden/README.md."""
    made = {}
    for key, value in model.state_dict().items():
        last, n_in = key.rsplit(".", 1)[-1], max(1, value[0].numel()) if value.dim() else 1
        base, scale = 0.0, (3 / n_in) ** 0.5
        if last == "inited":
            base, scale = 1, 0
        elif last == "cluster_size":
            base, scale = 4, 1
        elif last == "weight_g":
            places = {"dec.ups": (2.5, 0.3), "dec.resblocks": (0.4, 0.12), "discriminators": (1.5, 0.3)}
            base, scale = next((v for k, v in places.items() if key.startswith(k)), (1, 0.3))
        elif last == "gamma" or (last == "weight" and value.dim() == 1):
            base, scale = 1, 0.3
        elif last in ("bias", "beta"):
            base, scale = 0, 0.1
        elif last in ("weight_v", "embed", "embed_avg") or "embedding" in key:
            base, scale = 0, 1
        elif last in ("emb_rel_k", "emb_rel_v"):
            base, scale = 0, 0.5
        elif key.startswith(("enc_p.proj.", "enc_q.proj.")):
            scale *= 0.3
        elif ".post." in key:
            scale *= 0.5
        elif key.startswith("dec.conv_post."):
            scale *= 0.4
        made[key] = recipe_value(key, tuple(value.shape), base, scale)
    model.load_state_dict(made)
    return model.eval()
