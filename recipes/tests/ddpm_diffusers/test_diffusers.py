"""Our networks and samplers against diffusers: run by the Python of the environment `torch-xla`, which has
no JAX.

The JAX half runs in a separate process, with `TPULAB_JAX_PYTHON` or the environment of the agent's tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the environment torch-xla has torch and diffusers")
diffusers = pytest.importorskip("diffusers", reason="the environment torch-xla has torch and diffusers")

from needs_torch_xla import NEEDS_TORCH_XLA  # noqa: E402

CHECKOUT = Path(__file__).parents[3]
GUIDANCE = 2.5
PRESETS = ["small", "laion256", "laion512_large", "cifar10", "imagenet256"]
BETAS = {
    "beta_schedule": "linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "num_train_timesteps": 1000,
    # Strides of 200 that include 599.
    "timestep_spacing": "trailing",
}
KINDS = {"v": "v_prediction", "eps": "epsilon", "x": "sample"}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, jax_python: Path) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    script = Path(__file__).with_name("jax_reference.py")
    path = {"PYTHONPATH": str(CHECKOUT / "recipes" / "src")}
    done = subprocess.run(
        [jax_python, script, folder],
        env=os.environ | path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def _arrays(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as archive:
        return dict(archive)


def _first(images: np.ndarray) -> Any:
    """Channels first, as torch has them."""
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(images, -1, 1)))


def _context(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    found = {
        name.removeprefix("context_"): value for name, value in arrays.items() if name.startswith("context_")
    }
    return {
        name: _first(value) if name in ("mask", "known") else torch.from_numpy(value)
        for name, value in found.items()
    }


def _pipeline(folder: Path) -> Any:
    return diffusers.DiffusionPipeline.from_pretrained(
        str(folder), custom_pipeline=str(folder / "torch_pipeline.py"), trust_remote_code=True
    )


@pytest.mark.parametrize("name", PRESETS)
def test_an_exported_network_computes_the_same_in_torch_as_in_jax(reference: Path, name: str) -> None:
    arrays = _arrays(reference / name / "reference.npz")
    pipeline = _pipeline(reference / name)
    with torch.no_grad():
        output = pipeline.unet(_first(arrays["z"]), torch.from_numpy(arrays["logsnr"]), _context(arrays))
    np.testing.assert_allclose(output.movedim(1, -1).numpy(), arrays["output"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", PRESETS)
def test_an_exported_pipeline_samples_the_same_images(reference: Path, name: str) -> None:
    arrays = _arrays(reference / name / "reference.npz")
    pipeline = _pipeline(reference / name)
    pipeline.set_progress_bar_config(disable=True)
    reported = {key: value for key, value in _context(arrays).items() if key not in ("mask", "known")}
    made = pipeline(
        context=reported,
        latents=_first(arrays["z"]),
        guidance_scale=GUIDANCE,
        num_inference_steps=int(arrays["steps"]),
        output_type="latent",
    ).images
    made = made.movedim(1, -1).numpy()
    scale = np.abs(arrays["made"]).max()
    np.testing.assert_allclose(made, arrays["made"], atol=2e-3 * scale)


@pytest.mark.long
@NEEDS_TORCH_XLA
def test_an_exported_pipeline_runs_where_its_network_is(reference: Path) -> None:
    """Noise, masks and conditions follow the network to another device."""
    import torch_xla

    pipeline = _pipeline(reference / "small")
    pipeline.set_progress_bar_config(disable=True)
    latents = _first(_arrays(reference / "small" / "reference.npz")["z"])[:1]
    requested = {"prompt": "a large red circle", "num_inference_steps": 2, "guidance_scale": GUIDANCE}
    here = pipeline(latents=latents, output_type="np", **requested).images
    pipeline.to(torch_xla.device())
    there = pipeline(latents=latents, output_type="np", **requested).images
    np.testing.assert_allclose(there, here, atol=1e-3)
    drawn = pipeline(**requested, output_type="latent").images
    assert drawn.device.type == "xla"
    assert torch.isfinite(drawn).all()


def test_prompts_and_decoded_images_work_without_jax(reference: Path) -> None:
    pipeline = _pipeline(reference / "small")
    pipeline.set_progress_bar_config(disable=True)
    arrays = _arrays(reference / "small" / "reference.npz")
    reported = pipeline.conditions_for(["a large red circle", "a small blue cross", ""], 6.5)
    np.testing.assert_array_equal(reported["clip_emb"].numpy(), arrays["context_clip_emb"])
    for prompt in (["a large red circle"], "a large red circle"):
        images = pipeline(prompt=prompt, num_inference_steps=2, output_type="np").images
        assert images.shape == (1, 16, 16, 3)


# Case D19.
def test_two_exports_work_in_one_process(reference: Path, tmp_path: Path) -> None:
    """diffusers executes the code of the second over that of the first."""
    requested = {"prompt": "a large red circle", "num_inference_steps": 2, "output_type": "np"}
    latents = _first(_arrays(reference / "small" / "reference.npz")["z"])[:1]
    first = _pipeline(reference / "small")
    before = first(latents=latents, **requested).images
    copied = tmp_path / "a copy.of small"
    shutil.copytree(reference / "small", copied)
    second = _pipeline(copied)
    other = _pipeline(reference / "cifar10")
    assert other(num_inference_steps=2, output_type="pt").images.shape == (1, 3, 8, 8)
    for pipeline in (second, first, second):
        np.testing.assert_array_equal(pipeline(latents=latents, **requested).images, before)


def test_a_pipeline_has_the_arguments_and_results_of_diffusers_pipelines(
    reference: Path, tmp_path: Path
) -> None:
    pipeline = _pipeline(reference / "small")
    pipeline.set_progress_bar_config(disable=True)
    steps = {"num_inference_steps": 2}
    pictures = pipeline(["a large red circle", "a small blue cross"], num_images_per_prompt=2, **steps).images
    assert [picture.size for picture in pictures] == [(16, 16)] * 4
    pictures[0].save(tmp_path / "picture.png")
    latents = _first(_arrays(reference / "small" / "reference.npz")["z"])[:1]
    requested = {"latents": latents, "guidance_scale": GUIDANCE, "output_type": "np", **steps}
    red, *_ = pipeline("a large red circle", return_dict=False, **requested)
    assert 0 <= red.min() <= red.max() <= 1
    # An empty negative prompt is none, and any other moves the images away from its meaning.
    np.testing.assert_array_equal(pipeline("a large red circle", "", **requested).images, red)
    assert np.abs(pipeline("a large red circle", "a small blue cross", **requested).images - red).max() > 1e-3
    # Arrays instead of prompts, and one negative prompt for all of them.
    several = {
        "latents": latents.repeat(4, 1, 1, 1),
        "guidance_scale": GUIDANCE,
        "output_type": "np",
        **steps,
    }
    words = ["a large red circle", "a small blue cross"] * 2
    given = pipeline(context=pipeline.conditions_for(words, 6.5), negative_prompt="a small circle", **several)
    np.testing.assert_array_equal(given.images, pipeline(words, ["a small circle"] * 4, **several).images)
    with pytest.raises(ValueError, match="context lacks aesth_score, clip_emb; give zeros"):
        pipeline(context={"class": torch.zeros(1)}, **steps)
    with pytest.raises(ValueError, match="output_type='jpg'"):
        pipeline(output_type="jpg")
    pipeline.save_pretrained(tmp_path / "saved")
    saved = _pipeline(tmp_path / "saved")
    np.testing.assert_allclose(saved("a large red circle", **requested).images, red, atol=1e-4)


@pytest.mark.parametrize("kind", ["DPMSolverMultistepScheduler", "DDPMScheduler", "EulerDiscreteScheduler"])
def test_other_schedulers_of_diffusers_fit(reference: Path, kind: str) -> None:
    pipeline = _pipeline(reference / "small")
    pipeline.set_progress_bar_config(disable=True)
    latents = _first(_arrays(reference / "small" / "reference.npz")["z"])[:1]
    requested = {"prompt": "a large red circle", "latents": latents, "output_type": "np"}
    many = pipeline(num_inference_steps=16, **requested).images
    pipeline.scheduler = getattr(diffusers, kind).from_config(pipeline.scheduler.config)
    generator = torch.Generator().manual_seed(0)
    made = pipeline(num_inference_steps=16, generator=generator, **requested).images
    assert np.isfinite(made).all()
    if kind != "DDPMScheduler":
        # Both solve the same equation.
        assert np.abs(made - many).mean() < 0.1


def test_an_export_without_encoders_names_the_arrays_that_it_needs(reference: Path) -> None:
    """Prompts are not encoded by another encoder, and latents are not shown as images."""
    pipeline = _pipeline(reference / "laion256")
    pipeline.set_progress_bar_config(disable=True)
    with pytest.raises(ValueError, match="holds no text encoder") as refused:
        pipeline(prompt="a lighthouse in fog", output_type="latent")
    assert getattr(refused.value, "code", None) == "not_in_the_export"
    for output in ("a lighthouse in fog", "clip_emb [image, 4, 24]", "t5_emb [image, 3, 16]", "google/t5"):
        assert output in str(refused.value)
    with pytest.raises(ValueError, match="stable-diffusion"):
        pipeline(num_inference_steps=2)
    # Without conditions, or with the arrays that the message names, it samples latents.
    reported = pipeline.conditions_for([""], 6.5)
    assert {name: tuple(value.shape) for name, value in reported.items()} == {
        "clip_emb": (1, 4, 24),
        "t5_emb": (1, 3, 16),
        "clip_image_emb": (1, 8),
        **dict.fromkeys(("aesth_score", "height", "width"), (1,)),
    }
    assert all(name in str(refused.value) for name in reported)
    for requested in ({}, {"context": reported}):
        made = pipeline(**requested, num_inference_steps=2, output_type="latent").images
        assert made.shape == (1, 4, 8, 8)
        assert torch.isfinite(made).all()


def test_words_for_a_network_of_classes_are_refused(reference: Path) -> None:
    pipeline = _pipeline(reference / "imagenet256")
    pipeline.set_progress_bar_config(disable=True)
    with pytest.raises(ValueError, match=r'knows no words.*"class"'):
        pipeline(prompt=["a red circle"])
    made = pipeline(context={"class": torch.tensor([1, 4])}, num_inference_steps=2, output_type="latent")
    assert made.images.shape[0] == 2


def test_the_schedule_equals_diffusers(reference: Path) -> None:
    scheduler = diffusers.DDIMScheduler(**BETAS)
    ours = _arrays(reference / "steps.npz")["alphas"]
    np.testing.assert_allclose(scheduler.alphas_cumprod.numpy(), ours, rtol=2e-5)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_ddim_step_equals_diffusers(reference: Path, kind: str) -> None:
    arrays = _arrays(reference / "steps.npz")
    scheduler = diffusers.DDIMScheduler(
        **BETAS, prediction_type=KINDS[kind], clip_sample=False, set_alpha_to_one=True
    )
    scheduler.set_timesteps(5)
    scheduler.alphas_cumprod = torch.from_numpy(arrays["alphas"])
    step = scheduler.step(torch.from_numpy(arrays["output"]), 599, torch.from_numpy(arrays["z"]))
    np.testing.assert_allclose(step.pred_original_sample.numpy(), arrays[f"x_{kind}"], atol=1e-6)
    np.testing.assert_allclose(step.prev_sample.numpy(), arrays[f"ddim_{kind}"], atol=1e-6)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("size", ["small", "large"])
def test_an_ancestral_step_equals_diffusers(reference: Path, kind: str, size: str, monkeypatch: Any) -> None:
    arrays = _arrays(reference / "steps.npz")
    scheduler = diffusers.DDPMScheduler(
        **BETAS, prediction_type=KINDS[kind], clip_sample=False, variance_type=f"fixed_{size}"
    )
    scheduler.set_timesteps(5)
    scheduler.alphas_cumprod = torch.from_numpy(arrays["alphas"])
    from diffusers.schedulers import scheduling_ddpm

    monkeypatch.setattr(scheduling_ddpm, "randn_tensor", lambda *_, **__: torch.from_numpy(arrays["noise"]))
    step = scheduler.step(torch.from_numpy(arrays["output"]), 599, torch.from_numpy(arrays["z"]))
    np.testing.assert_allclose(step.prev_sample.numpy(), arrays[f"ancestral_{size}_{kind}"], atol=1e-6)
