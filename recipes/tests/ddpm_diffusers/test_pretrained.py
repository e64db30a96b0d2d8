"""The published encoders and the Frechet inception distance, with the real classes, against the libraries'
own ways of using them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from ddpm.tiny import flags
from ddpm_diffusers import published
from diffusers import AutoencoderKL, DiffusionPipeline, StableDiffusionXLPipeline
from needs_torch_xla import NEEDS_TORCH_XLA
from torchmetrics.image.fid import FrechetInceptionDistance
from tpulab_recipes.common import torch_process
from tpulab_recipes.common.errors import DataError, MissingPackage
from tpulab_recipes.common.storage import Folder
from tpulab_recipes.ddpm.data import torch_models
from tpulab_recipes.ddpm.data.shapes import write_shape_images
from tpulab_recipes.images import inception
from tpulab_recipes.images.comparison import Comparison
from tpulab_recipes.images.files import fit_image
from tpulab_recipes.images.frechet import frechet_distance
from tpulab_recipes.images.messages import decode_example, decode_tensor
from tpulab_recipes.images.shards import read_images
from tpulab_recipes.images.tfrecord import read_records

SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    published.write_all(folder)
    return folder


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (3, 40, 40, 3), dtype=np.uint8)


def _states(models: Path, which: str, captions: list[str], **changed: Any) -> list[np.ndarray]:
    length, width = (getattr(published, f"{which.upper()}_{kind}") for kind in ("LENGTH", "WIDTH"))
    requested = {"name": str(models / which), "length": length, "width": width}
    return torch_models.text_states(captions, which, **requested | changed)


def test_clips_states_match_diffusers_own_pipeline(models: Path) -> None:
    place = str(models / "clip")
    pipeline = StableDiffusionXLPipeline(
        vae=None,
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=transformers.CLIPTextModelWithProjection.from_pretrained(
            place, projection_dim=published.CLIP_IMAGE_WIDTH
        ).eval(),
        tokenizer_2=transformers.CLIPTokenizer.from_pretrained(place),
        unet=None,
        scheduler=None,
        add_watermarker=False,
    )
    found = _states(models, "clip", published.CAPTIONS)
    assert [len(one) for one in found] == [published.CLIP_LENGTH, 0, 8]
    for caption, states in zip(published.CAPTIONS, found, strict=True):
        with torch.no_grad():
            expected, *_ = pipeline.encode_prompt(caption, device="cpu", do_classifier_free_guidance=False)
        np.testing.assert_allclose(states, expected[0, : len(states)], atol=1e-5)


def test_t5s_states_match_each_caption_alone(models: Path) -> None:
    place = str(models / "t5")
    tokenizer = transformers.T5Tokenizer.from_pretrained(place)
    encoder = transformers.T5EncoderModel.from_pretrained(place, dtype=torch.float32).eval()
    found = _states(models, "t5", published.CAPTIONS)
    assert found[0].shape == (published.T5_LENGTH, published.T5_WIDTH)
    assert found[1].shape == (0, published.T5_WIDTH)
    for caption, states in zip(published.CAPTIONS, found, strict=True):
        ids = tokenizer(caption, truncation=True, max_length=published.T5_LENGTH, return_tensors="pt")
        with torch.no_grad():
            expected = encoder(input_ids=ids["input_ids"]).last_hidden_state[0]
        np.testing.assert_allclose(states, expected[: len(states)], atol=1e-5)


def test_bert_encodes_each_caption_as_if_it_were_alone(models: Path) -> None:
    place = str(models / "bert")
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    encoder = transformers.AutoModel.from_pretrained(place).eval()
    found = _states(models, "bert", [*published.CAPTIONS, "a large red cross a large red cross"])
    # With the tokens at both ends, which stay where a caption is cut.
    assert [len(one) for one in found] == [6, 0, 4, published.BERT_LENGTH]
    for caption, states in zip(("a large red circle", "", "red cross"), found, strict=False):
        with torch.no_grad():
            expected = encoder(**tokenizer(caption, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(states, expected[: len(states)], atol=1e-5)


def test_image_embeddings_match_clips_own_forward_pass(models: Path, pictures: np.ndarray) -> None:
    from PIL import Image

    place = str(models / "clip")
    found = torch_models.image_embeddings(pictures, place, published.CLIP_IMAGE_WIDTH)
    processor = transformers.AutoProcessor.from_pretrained(place)
    requested = processor(
        text=["red"] * 3, images=[Image.fromarray(one) for one in pictures], return_tensors="pt"
    )
    with torch.no_grad():
        expected = transformers.CLIPModel.from_pretrained(place).eval()(**requested).image_embeds
    np.testing.assert_allclose(found / np.linalg.norm(found, axis=1, keepdims=True), expected, atol=1e-5)
    assert np.std(found, axis=0).min() > 1e-3


def test_clip_scores_are_the_cosines_of_clips_own_forward_pass(
    models: Path, pictures: np.ndarray, tmp_path: Path
) -> None:
    captions = ["a large red circle", "red cross", "red " * 30]
    place = str(shutil.copytree(models / "clip", tmp_path / "clip"))
    model = transformers.CLIPModel.from_pretrained(place).eval()
    # Its cosines are negative, which all become 0.
    assert not torch_models.clip_scores(pictures, captions, place).any()
    model.visual_projection.weight.data.neg_()
    torch_models._image_encoder.cache_clear()
    model.save_pretrained(place)
    tokens = transformers.CLIPTokenizer.from_pretrained(place)(
        captions, truncation=True, max_length=published.CLIP_LENGTH, padding=True, return_tensors="pt"
    )
    shown = transformers.CLIPImageProcessor.from_pretrained(place)(list(pictures), return_tensors="pt")
    with torch.no_grad():
        found = model(**tokens, pixel_values=shown["pixel_values"])
        expected = 100 * (found.logits_per_image / model.logit_scale.exp()).diagonal().clamp(min=0)
    scores = torch_models.clip_scores(pictures, captions, place)
    np.testing.assert_allclose(scores, expected.numpy(), rtol=1e-4)
    assert scores.min() > 0


def test_latents_are_scaled_and_decoded_as_by_the_vae(models: Path, pictures: np.ndarray) -> None:
    vae = AutoencoderKL.from_pretrained(str(models / "sd"), subfolder="vae").eval()
    images = pictures.astype(np.float32) / 127.5 - 1
    pixels = torch.from_numpy(images).movedim(-1, 1)
    with torch.no_grad():
        mean = vae.encode(pixels).latent_dist.mean
        decoded = vae.decode(mean).sample
    latents = torch_models.encode_latents(images, str(models / "sd"))
    np.testing.assert_allclose(latents, ((mean - 0.25) * 0.5).movedim(1, -1), atol=1e-5)
    shown = torch_models.decode_latents(latents, str(models / "sd" / "vae"))
    np.testing.assert_allclose(shown, decoded.movedim(1, -1).clamp(-1, 1), atol=1e-5)


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_an_accelerator_has_one_program_for_any_number_of_rows(
    models: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On XLA:CPU, in bfloat16, as on a TPU."""
    from torch_xla.debug import metrics

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch_models, "count_chips", lambda: 0)
    images = np.concatenate([pictures] * 4)[:11]
    captions = [*published.CAPTIONS, "a red cross"]

    def encoded(count: int) -> list[np.ndarray]:
        return [
            torch_models.encode_latents(images[:count], str(models / "sd")),
            *_states(models, "clip", captions[:count]),
            *_states(models, "t5", captions[:count]),
            torch_models.image_embeddings(images[:count], str(models / "clip"), published.CLIP_IMAGE_WIDTH),
        ]

    expected = encoded(11)
    with pytest.raises(DataError, match="no CUDA device"):
        torch_models.choose_device("cuda")
    where, is_accelerator = torch_models.choose_device("xla")
    assert is_accelerator
    assert re.search(r"XLA.*, in bfloat16$", where)
    try:
        found = encoded(11)
        before = metrics.metric_data("CompileTime")[0]
        encoded(3)
        assert metrics.metric_data("CompileTime")[0] == before
    finally:
        assert torch_models.choose_device("auto") == ("the host CPU, in float32", False)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == np.float32
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=0.05 * max(1.0, np.abs(theirs).max(initial=0)))


@pytest.mark.parametrize(
    ("which", "changed", "message"),
    [
        ("clip", {"name": "nobody/nothing"}, "nobody/nothing could not be loaded.*--auth-token"),
        ("clip", {"length": 77}, "takes 9 tokens.*set model.conditioning.clip_length=9"),
        ("t5", {"width": 4096}, "width 16.*set model.conditioning.t5_width=16"),
    ],
)
def test_models_that_do_not_fit_are_refused(
    models: Path, which: str, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        _states(models, which, ["red"], **changed)


class Extractor(torch.nn.Module):
    num_features = 6

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.randn(5 * 5 * 3, 6, generator=torch.Generator().manual_seed(0))
        )

    def forward(self, images: Any) -> Any:
        return (images.float() / 255).flatten(1) @ self.weight


def test_the_frechet_distance_equals_torchmetrics_and_the_formula_for_two_gaussians() -> None:
    rng = np.random.default_rng(0)
    extractor = Extractor()
    metric = FrechetInceptionDistance(feature=extractor)
    features = []
    for real, low in ((True, 0), (False, 60)):
        images = torch.from_numpy(rng.integers(low, 256, (50, 3, 5, 5), dtype=np.uint8))
        metric.update(images, real=real)
        with torch.no_grad():
            features.append(extractor(images).double().numpy())
    assert frechet_distance(*features) == pytest.approx(float(metric.compute()), rel=1e-5)

    # Samples with exactly these moments; both covariances have the axes of one rotation.
    axes = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    centres, spreads = rng.standard_normal((2, 6)), rng.uniform(0.1, 3, (2, 6))
    sets = []
    for centre, spread in zip(centres, spreads, strict=True):
        raw = rng.standard_normal((40, 6))
        raw -= raw.mean(axis=0)
        white = raw @ np.linalg.inv(np.linalg.cholesky(np.cov(raw, rowvar=False))).T
        sets.append(centre + white * spread @ axes.T)
    closed = np.sum((centres[0] - centres[1]) ** 2) + np.sum((spreads[0] - spreads[1]) ** 2)
    assert frechet_distance(*sets) == pytest.approx(closed, rel=1e-9)


def test_inceptions_distance_matches_torch_fidelitys_features(
    tmp_path: Path,
) -> None:
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

    weights = str(tmp_path / "inception.pth")
    with pytest.raises(DataError, match=r"inception\.pth.*Download https.*--inception_weights"):
        inception.distance(weights)
    published.write_inception(Path(weights))
    rng = np.random.default_rng(7)
    extractor, features = FeatureExtractorInceptionV3("reference", ["192"], weights), []
    for real, low in ((True, 0), (False, 128)):
        images = rng.integers(low, 256, (4, 32, 32, 3), dtype=np.uint8)
        for some in (images[:3], images[3:]):
            for kind in ("fid", "kid"):
                inception.update(some, real, weights, features=192, kind=kind)
        with torch.no_grad():
            (found,) = extractor(torch.from_numpy(images).movedim(-1, 1).contiguous())
        features.append(found.double().numpy())
    assert frechet_distance(*features) > 1e-3
    found = inception.distance(weights, features=192)
    assert found == pytest.approx(frechet_distance(*features), rel=1e-3)

    def kernel(some: np.ndarray, others: np.ndarray) -> np.ndarray:
        return (some @ others.T / 192 + 1) ** 3

    within = [(kernel(some, some).sum() - np.trace(kernel(some, some))) / 12 for some in features]
    expected = sum(within) - 2 * kernel(*features).mean()
    assert inception.distance(weights, features=192, kind="kid") == pytest.approx(expected, rel=1e-3)


#: A network of one level, so that its step compiles in seconds.
SETTINGS = {
    "in_dimensions": [4, 4, 4],
    "dataset.args.image_size": 32,
    "dataset.args.image_format": "png",
    "model.args.ch": 8,
    "model.args.emb_ch": 16,
    "model.args.seq_width": 16,
    "model.args.head_dim": 8,
    "model.args.norm_groups": 4,
    "model.args.ch_mult": 1,
    "model.args.num_res_blocks": 1,
    "model.args.attn_resolutions": [],
    "model.args.param_dtype": "fp32",
    "train.batch_size": 8,
    "train.snapshot_freq": 0,
    "model.conditioning.clip_length": published.CLIP_LENGTH,
    "model.conditioning.clip_width": published.CLIP_WIDTH,
    "model.conditioning.clip_image_width": published.CLIP_IMAGE_WIDTH,
    "model.conditioning.t5_length": published.T5_LENGTH,
    "model.conditioning.t5_width": published.T5_WIDTH,
    "model.conditioning.bert_length": published.BERT_LENGTH,
    "model.conditioning.bert_width": published.BERT_WIDTH,
}
COMMANDS = """
import json, sys
from tpulab_recipes.ddpm.__main__ import main
for line in json.loads(sys.argv[1]):
    code = main(line)
    if code:
        sys.exit(code)
"""


@pytest.mark.long
def test_the_commands_encode_train_and_evaluate_with_torch_in_a_process_beside_jax(
    tmp_path: Path, models: Path, jax_python: Path
) -> None:
    images, data, run, out = (tmp_path / name for name in ("images", "data", "run", "pictures"))
    count = 66
    write_shape_images(Folder(images), count)
    names = {f"{name}_model_id": models / name for name in ("clip", "t5", "bert")} | {"vae_id": models / "sd"}
    settings = SETTINGS | {f"model.{name}": place for name, place in names.items()}
    config = ["--preset", "laion256", *flags(settings)]
    prompts = ["--prompt", "red cross; a large red circle", "--num_images", str(count // 2)]
    sample = ["evaluate", "--checkpoint_dir", f"{run}/checkpoints_recent", "--save_dir", str(out), *prompts]
    sample += [
        "--num_steps",
        "2",
        "--npz",
        "--reference_dir",
        str(images),
        "--clip_model",
        str(models / "clip"),
    ]
    exported = tmp_path / "exported"
    export = ["export", "--checkpoint_dir", f"{run}/checkpoints_recent", "--write_dir", str(exported)]
    clip = ["--train.snapshot_freq", "1", "--train.snapshot_clip", str(models / "clip")]
    commands = [
        ["encode", *config, "--data_dir", str(images), "--write_dir", str(data), "--quiet"],
        ["train", *config, "--global_dir", str(run), str(data), "--steps", "1", "--quiet", *clip],
        [*export, "--with_encoders"],
        [*sample, "--quiet"],
    ]
    path = {"PYTHONPATH": SOURCES, "JAX_PLATFORMS": "cpu", "TPULAB_TORCH_PYTHON": sys.executable}
    done = subprocess.run(
        [jax_python, "-c", COMMANDS, json.dumps(commands)],
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["images"], figures["reference_images"]) == (count, count)
    assert np.isfinite(figures["frechet"])
    logged = [json.loads(line) for line in (run / "logs" / "metrics.jsonl").read_text().splitlines()]
    for score in (figures["clip_score"], *(row["clip_score"] for row in logged if "clip_score" in row)):
        assert 0 <= score <= 100
    assert any("clip_score" in row for row in logged)

    shown = list(read_images(Folder(images), Folder(images).names(".tfrecord")[0], "png"))
    (name,) = Folder(data).names(".tfrecord")
    with Folder(data).read(name) as file:
        records = [decode_example(record) for record in read_records(file, name)]
    pixels = np.stack([fit_image(one.pixels, 32) for one in shown])
    captions = [one.caption for one in shown]
    expected: dict[str, Any] = {
        "image": torch_models.encode_latents(pixels.astype(np.float32) / 127.5 - 1, str(models / "sd")),
        "clip_emb": _states(models, "clip", captions),
        "t5_emb": _states(models, "t5", captions),
        "bert_emb": _states(models, "bert", captions),
        "clip_image_emb": torch_models.image_embeddings(
            pixels, str(models / "clip"), published.CLIP_IMAGE_WIDTH
        ),
    }
    for key, rows in expected.items():
        for record, row in zip(records, rows, strict=True):
            found = decode_tensor(record[key][0]).astype(np.float32)
            # Stored in bfloat16, which has eight digits.
            np.testing.assert_allclose(found, row, rtol=2**-8, atol=2**-8 * np.abs(row).max(), err_msg=key)
    with np.load(out / "images.npz") as archive:
        decoded = torch_models.decode_latents(archive["latents"], str(models / "sd"))
        np.testing.assert_allclose(archive["images"], decoded, atol=1e-5)
    # The export holds the encoders: prompts in, images out, with the states and the decoder of `encode`.
    pipeline = DiffusionPipeline.from_pretrained(
        str(exported), custom_pipeline=str(exported / "torch_pipeline.py"), trust_remote_code=True
    )
    pipeline.set_progress_bar_config(disable=True)
    reported = pipeline.conditions_for(captions[:3], 6.5)
    for key in ("clip_emb", "t5_emb", "bert_emb"):
        for row, states in zip(reported[key].numpy(), expected[key], strict=False):
            np.testing.assert_allclose(row[: len(states)], states, atol=1e-5)
            np.testing.assert_array_equal(row[len(states) :], 0)
    latents = torch.randn(1, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    requested = {"latents": latents, "num_inference_steps": 2}
    (picture,) = pipeline("red cross", "blue", guidance_scale=2.0, **requested).images
    assert picture.size == (32, 32)
    made = pipeline("red cross", output_type="latent", **requested).images.movedim(1, -1).numpy()
    shown = pipeline("red cross", output_type="np", **requested).images
    decoded = torch_models.decode_latents(made, str(models / "sd"))
    np.testing.assert_allclose(shown, (decoded + 1) / 2, atol=1e-5)


def test_too_few_images_for_a_distance_are_refused(tmp_path: Path) -> None:
    write_shape_images(Folder(tmp_path), 66)
    compare = Comparison(str(tmp_path), 16, "png")
    with pytest.raises(DataError, match=r"--num-images makes 64 images, too few.*at least 65 samples"):
        compare.check(64)
    with pytest.raises(DataError, match=r"holds 66 images.*at least 2,049 samples.*compare 50,000"):
        Comparison(str(tmp_path), 16, "png", "fid")


def test_an_end_of_the_process_and_a_missing_python_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPULAB_TORCH_PYTHON", "/bin/false")
    with pytest.raises(DataError, match="ended with 1"):
        torch_process.call("tpulab_recipes.ddpm.data.torch_models:encode_latents")
    monkeypatch.setenv("TPULAB_TORCH_PYTHON", str(tmp_path / "python"))
    with pytest.raises(DataError, match="cannot be started: No such file"):
        torch_process.call("tpulab_recipes.ddpm.data.torch_models:encode_latents")
    monkeypatch.delenv("TPULAB_TORCH_PYTHON")
    monkeypatch.setattr(torch_process, "_PACKAGES", ("nobody_has_this",))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "jax"))
    with pytest.raises(MissingPackage, match="npx tpulab env create torch-xla"):
        torch_process.torch_python()
