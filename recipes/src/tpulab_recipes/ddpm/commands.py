"""What the commands do, given their flags."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tpulab_recipes.ddpm.config import Config, load_config, to_dict, with_settings
from tpulab_recipes.ddpm.errors import CheckpointError, ConfigError, DataError, RecipeError
from tpulab_recipes.ddpm.progress import Progress, Silent, Terminal

#: Scale of the guidance of `evaluate`, for networks that are not distilled.
DEFAULT_GUIDANCE = 3.5


def _progress(options: argparse.Namespace) -> Progress:
    return Silent() if options.quiet else Terminal()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _join_slice(options: argparse.Namespace) -> tuple[int, int]:
    from tpulab_recipes.ddpm.hosts import join_slice

    return join_slice(options.coordinator, options.num_processes, options.process_id)


def run_download(options: argparse.Namespace) -> None:
    import importlib.util

    from tpulab_recipes.ddpm.download import DownloadOptions, download

    installed = importlib.util.find_spec("img2dataset") is not None
    if options.downloader == "img2dataset" or (options.downloader == "auto" and installed):
        from tpulab_recipes.ddpm.img2dataset import download_with_img2dataset

        download_with_img2dataset(options)
        return
    names = DownloadOptions.__dataclass_fields__
    done = download(
        DownloadOptions(**{name: value for name, value in vars(options).items() if name in names}),
        _progress(options),
    )
    _say(json.dumps(done))


def run_shapes(options: argparse.Namespace) -> None:
    from tpulab_recipes.ddpm.data.image_shards import write_shape_images
    from tpulab_recipes.ddpm.data.storage import Folder

    names = write_shape_images(Folder(options.write_dir), options.count)
    _say(json.dumps({"shards": len(names), "images": options.count}))


def run_encode(options: argparse.Namespace) -> None:
    from tpulab_recipes.ddpm.encode import encode, encoders_for

    config = with_settings(load_config(options.config), options.settings)
    process, processes = _join_slice(options)
    done = encode(
        config,
        options.data_dir,
        options.write_dir,
        _progress(options),
        batch_size=options.batch_size,
        score_col=options.score_col,
        class_col=options.class_col,
        encoders=encoders_for(config, options.auth_token),
        process=process,
        processes=processes,
    )
    _say(json.dumps(done))


def run_train(options: argparse.Namespace) -> None:
    from tpulab_recipes.ddpm.data.pipeline import EncodingSource, open_source
    from tpulab_recipes.ddpm.data.storage import Folder
    from tpulab_recipes.ddpm.evaluator import evaluator_for
    from tpulab_recipes.ddpm.log_writers import JsonLines, LogWriter, TensorBoard, WeightsAndBiases
    from tpulab_recipes.ddpm.model.network import Network
    from tpulab_recipes.ddpm.trainer import Figures, Trainer

    config = with_settings(load_config(options.config), options.settings)
    global_dir, *more = options.global_dir
    if len(more) > 1 or (more and options.data_dir):
        raise ConfigError(
            "--global_dir", "takes one folder, and after it at most the folder with the encodings."
        )
    data_dir = more[0] if more else options.data_dir
    process, processes = _join_slice(options)
    source = open_source(config, data_dir, process=process, processes=processes)
    logs = config.train.log_dir.format(global_dir.rstrip("/"))
    writers: list[LogWriter] = []
    if process == 0:
        writers.append(JsonLines(Folder(logs)))
        with Folder(global_dir).make().write("config.json") as file:
            file.write(json.dumps(to_dict(config), indent=2).encode())
        if options.tensorboard:
            writers.append(TensorBoard(logs))
        if options.wandb_project:
            writers.append(WeightsAndBiases(options.wandb_project, options.wandb_run, logs, to_dict(config)))
    progress = _progress(options) if process == 0 else Silent()

    def told(figures: Figures) -> None:
        progress.advance(
            figures.step - told.step,  # type: ignore[attr-defined]
            f"loss {figures.loss:.4f}, gradient {figures.gnorm:.3f}, "
            f"{figures.images_per_second:.0f} images/s",
        )
        told.step = figures.step  # type: ignore[attr-defined]

    evaluator = evaluator_for(Network(config), source) if config.train.snapshot_freq else None
    until = options.steps or config.train.iterations
    with Trainer(
        config, source, global_dir=global_dir, writers=writers, evaluate=evaluator, on_log=told
    ) as trainer:
        told.step = trainer.step  # type: ignore[attr-defined]
        where = (
            f"going on at step {trainer.resumed_at}"
            if trainer.resumed_at is not None
            else "from the beginning"
        )
        if isinstance(source, EncodingSource):
            where += f"; {source.held_out_words}"
        progress.start("train", max(0, until - trainer.step), f"{where}; the first step compiles")
        trainer.train(until)
        progress.finish()
        last = trainer.history[-1].as_dict() if trainer.history else {}
        if process == 0:
            _say(json.dumps({"step": trainer.step, **last}))


@contextmanager
def _loaded(options: argparse.Namespace) -> Iterator[tuple[Config, Any, bool]]:
    """The configuration and the averaged weights of a checkpoint. Of a student, the configuration says in how
    many steps it samples."""
    from tpulab_recipes.ddpm.checkpoint import CheckpointFolder
    from tpulab_recipes.ddpm.mesh import make_mesh
    from tpulab_recipes.ddpm.model.network import Network

    place = options.checkpoint_dir
    if "://" not in place and not os.path.isdir(place):
        # A mistyped folder must not be made.
        raise CheckpointError(f"{place} has no checkpoint: there is no such folder.")
    with CheckpointFolder(place) as folder:
        config = load_config(options.config) if options.config else folder.config(options.checkpoint)
        # Students are saved with the number of their steps.
        steps = folder.about(options.checkpoint).get("sampling_steps")
        if steps:
            config = with_settings(config, [f"model.eval_sampling_num_steps={steps}"])
        config = with_settings(config, options.settings)
        state = folder.load(Network(config), make_mesh(), options.checkpoint)
    yield config, state.ema, bool(steps)


def run_evaluate(options: argparse.Namespace) -> None:
    from tpulab_recipes.ddpm.data.storage import Folder
    from tpulab_recipes.ddpm.hosts import dealt_out
    from tpulab_recipes.ddpm.mesh import state_of_this_host
    from tpulab_recipes.ddpm.model.network import Network
    from tpulab_recipes.ddpm.pictures import grid, png
    from tpulab_recipes.ddpm.prompts import context_for, decode_images
    from tpulab_recipes.ddpm.sampler import Sampler

    process, _ = _join_slice(options)
    with _loaded(options) as (config, params, is_student):
        # A student has its teacher's guidance in its weights.
        guidance = options.guidance_scale
        if guidance is None:
            guidance = 1.0 if is_student else DEFAULT_GUIDANCE
        prompts, classes = _prompts(options, config)
        out = Folder(options.save_dir)
        if process == 0:
            out.make()
        batch = min(options.max_batch_size, len(prompts))
        sampler = Sampler(Network(config), batch, options.sampler, is_guided=guidance != 1.0)
        known, mask = _inpainting(options, config)
        params = state_of_this_host(params)

        def make(first: int, last: int) -> tuple[np.ndarray, ...]:
            context = context_for(
                prompts[first:last],
                config,
                aesth_score=options.aesth_score,
                classes=None if classes is None else classes[first:last],
                token=options.auth_token,
            )
            count = last - first
            latents = sampler(
                params,
                context,
                seed=options.seed + first,
                steps=options.num_steps,
                guidance=guidance,
                known=None if known is None else np.repeat(known, count, axis=0),
                mask=None if mask is None else np.repeat(mask, count, axis=0),
            )[:count]
            return latents, decode_images(latents, config, options.auth_token)

        progress = _progress(options) if process == 0 else Silent()
        progress.start("sample", len(prompts), "the first images compile")
        pieces = []
        for piece in dealt_out(len(prompts), batch, make):
            pieces.append(piece)
            progress.advance(len(piece[0]))
        progress.finish()
    if process:
        return
    latents, images = (np.concatenate(rows) for rows in zip(*pieces, strict=True))
    for index, image in enumerate(images):
        with out.write(f"image_{index:04d}.png") as file:
            file.write(png(image))
    columns = min(8, max(options.num_images, 1)) if options.num_images > 1 else 8
    with out.write("grid.png") as file:
        file.write(png(grid(images, columns=columns)))
    with out.write("prompts.json") as file:
        file.write(json.dumps(prompts, indent=2).encode())
    if options.npz:
        buffer = io.BytesIO()
        np.savez(buffer, images=images, latents=latents)
        with out.write("images.npz") as file:
            file.write(buffer.getvalue())
    _say(json.dumps({"images": len(images), "folder": options.save_dir}))


def _prompts(options: argparse.Namespace, config: Config) -> tuple[list[str], list[int] | None]:
    if config.model.conditioning.num_classes:
        if not options.classes:
            raise ConfigError("--classes", "is needed: this network knows classes, not prompts.")
        classes = [int(one) for one in options.classes.split(",") for _ in range(options.num_images)]
        return [f"class {one}" for one in classes], classes
    prompts = [one.strip() for one in (options.prompt or "").split(";") if one.strip()]
    if not prompts and config.model.conditioning.clip_width + config.model.conditioning.t5_width:
        raise ConfigError(
            "--prompt", 'is needed, for example --prompt "a small red circle; a large blue cross".'
        )
    return [prompt for prompt in prompts or [""] for _ in range(options.num_images)], None


def _inpainting(options: argparse.Namespace, config: Config) -> tuple[np.ndarray | None, np.ndarray | None]:
    if not options.inpaint and not options.mask:
        return None, None
    if not (options.inpaint and options.mask):
        raise ConfigError("--inpaint", "and --mask go together.")
    from tpulab_recipes.ddpm.data.images import decode_image, fit_image
    from tpulab_recipes.ddpm.encode import encoders_for

    def read(path: str) -> np.ndarray:
        try:
            with open(path, "rb") as file:
                return fit_image(decode_image(file.read(), path), config.dataset.args.image_size)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from error

    pixels = read(options.inpaint).astype(np.float32) / 127.5 - 1
    if config.in_pixels:
        known = pixels[None]
    else:
        known = encoders_for(config, options.auth_token)(pixels[None], [""])[0]["image"][None]
    painted = read(options.mask)[..., 0] > 127
    size = config.in_dimensions[0]
    step = painted.shape[0] // size
    blocks = painted[: size * step, : size * step].reshape(size, step, size, step)
    # A latent is made anew when any of its pixels is.
    mask = np.asarray(blocks.any(axis=(1, 3)), np.float32)
    return known, mask[None, ..., None]


def run_distill(options: argparse.Namespace) -> None:
    from tpulab_recipes.ddpm.checkpoint import CheckpointFolder
    from tpulab_recipes.ddpm.data.pipeline import open_source
    from tpulab_recipes.ddpm.distiller import Distiller
    from tpulab_recipes.ddpm.mesh import make_mesh, whole_state
    from tpulab_recipes.ddpm.model.network import Network
    from tpulab_recipes.ddpm.train_step import place_state, state_of

    process, processes = _join_slice(options)
    progress = _progress(options) if process == 0 else Silent()
    with _loaded(options) as (config, teacher, _):
        source = open_source(config, options.data_dir, process=process, processes=processes)
        distill = config.distill
        with CheckpointFolder(options.write_dir) as out:
            # A student that was saved is the next teacher; its folder is numbered by the halvings done.
            done = out.latest() or 0
            steps = distill.start_num_steps
            if done:
                about = out.about(done)
                steps, saved = about["sampling_steps"], out.load(Network(config), make_mesh(), done)
                teacher = saved.ema
            distiller = Distiller(
                config, source, teacher, guidance=options.guidance_scale, steps=steps, rounds_done=done
            )
            halvings = int(np.log2(steps // distill.end_num_steps)) if steps > distill.end_num_steps else 0
            progress.start("distill", halvings * distill.steps_per_halving, f"from {steps} steps")
            while distiller.steps > distill.end_num_steps:
                found = distiller.halve(lambda *_: progress.advance(1))
                done += 1
                state = state_of(distiller.network, whole_state(distiller.params))
                state = place_state(state._replace(step=np.asarray(done, np.int32)), distiller.mesh)
                out.save(state, config, {"sampling_steps": found.steps, "loss": found.loss})
                progress.advance(0, f"{found.steps} steps, loss {found.loss:.4f}")
            progress.finish()
    if process == 0:
        _say(json.dumps({"sampling_steps": distiller.steps, "halvings": done, "folder": options.write_dir}))


def run_export(options: argparse.Namespace) -> None:
    from tpulab_recipes.ddpm.exporter import write_export

    with _loaded(options) as (config, params, _):
        write_export(params, config, options.write_dir)
    _say(json.dumps({"folder": options.write_dir}))


def run_benchmark(options: argparse.Namespace) -> None:
    from tpulab_recipes.ddpm.benchmark import compiled_rows, format_table, measured_rows

    sizes = options.batch_size or [None]
    if len(sizes) not in (1, len(options.configs)):
        raise ConfigError("--batch_size", "takes one number, or one for each configuration.")
    pairs = [
        (name, load_config(name), sizes[place] if len(sizes) > 1 else sizes[0])
        for place, name in enumerate(options.configs)
    ]
    progress = _progress(options)
    if options.compile_for is not None:
        rows: list[Mapping[str, Any]] = list(compiled_rows(pairs, options.compile_for or None, progress))
    else:
        rows = list(measured_rows(pairs, options.steps, progress))
    _say(format_table(rows))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
            file.write("\n")


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "download": run_download,
    "shapes": run_shapes,
    "encode": run_encode,
    "train": run_train,
    "evaluate": run_evaluate,
    "distill": run_distill,
    "export": run_export,
    "benchmark": run_benchmark,
}
__all__ = ["COMMANDS", "RecipeError"]
