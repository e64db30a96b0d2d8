"""The commands: their flags, and what each does."""

from __future__ import annotations

import io
import json
import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import tyro

from tpulab_recipes.common.command_line import WithProgress, choose_command, preset_argument, print_result
from tpulab_recipes.common.errors import CheckpointError, ConfigError, DataError
from tpulab_recipes.common.settings import to_dict
from tpulab_recipes.ddpm.config import TEXT_STATES, Config, check_config, context_shapes
from tpulab_recipes.ddpm.presets import PRESETS, load_config
from tpulab_recipes.images.command import Download, Import
from tpulab_recipes.images.shards import CLASS_KEY, SCORE_KEY

#: Scale of the guidance of `evaluate`, for networks that are not distilled.
DEFAULT_GUIDANCE = 3.5
#: Flags such as `--train.batch-size`.
Settings: TypeAlias = Annotated[Config, tyro.conf.arg(name="")]
ConfigFlag = tyro.conf.arg(aliases=["--config"], metavar="PRESET|FILE")
PresetFlag = tyro.conf.arg(
    aliases=["--config"],
    metavar="PRESET|FILE",
    help=f"{', '.join(PRESETS)}, or a .py, .toml or .json file; the flags below change settings of it.",
)


@dataclass(frozen=True, kw_only=True)
class OnHosts(WithProgress):
    platform: Literal["cpu", "tpu"] | None = None
    """Require the host CPU or a TPU; the command fails without it. None: whatever is available."""
    coordinator: str | None = None
    """HOST:PORT of the first host of a slice; `auto` asks the TPU's environment. None: one host."""
    num_processes: int | None = None
    """Number of hosts, with `--coordinator HOST:PORT`."""
    process_id: int | None = None
    """Index of this host, with `--coordinator HOST:PORT`."""

    def join_slice(self) -> tuple[int, int]:
        """Prints the device, and returns the index of this host and the number of hosts. Raises
        `DeviceRuntimeError` when it is not the requested platform, so that nothing runs on the host CPU
        unnoticed."""
        import jax

        from tpulab_recipes import runtime

        if self.coordinator == "auto":
            jax.distributed.initialize()
        elif self.coordinator:
            if self.num_processes is None or self.process_id is None:
                raise ConfigError("--coordinator", "needs --num-processes and --process-id.")
            jax.distributed.initialize(self.coordinator, self.num_processes, self.process_id)
        backend = runtime.use("jax", platform=self.platform)
        world = backend.world()
        if world.is_main and not self.quiet:
            print(backend.describe(), flush=True)
        return world.process_index, world.process_count


@dataclass(frozen=True, kw_only=True)
class WithEncoders(WithProgress):
    auth_token: str | None = None
    """Hugging Face token, for encoders that need an account. None: that of `HF_TOKEN` or
    `hf auth login`."""

    def sign_in(self) -> None:
        # huggingface_hub reads it from there, in the process with the encoders too.
        if self.auth_token:
            os.environ["HF_TOKEN"] = self.auth_token


@dataclass(frozen=True, kw_only=True)
class Shapes(WithProgress):
    """Write shards of captioned shapes, to try the pipeline without a network."""

    write_dir: str
    """Folder for the image shards."""
    count: int = 2048
    """Number of images."""

    def run(self) -> None:
        from tpulab_recipes.common.storage import Folder
        from tpulab_recipes.ddpm.data.shapes import write_shape_images

        names = write_shape_images(Folder(self.write_dir), self.count)
        print_result(shards=len(names), images=self.count)


@dataclass(frozen=True, kw_only=True)
class Encode(WithEncoders, OnHosts):
    """Turn images and captions into latents and text states."""

    preset: Annotated[str, PresetFlag]
    data_dir: str
    """Folder with the image shards."""
    write_dir: str
    """Folder for the shards of encodings."""
    score_col: str = SCORE_KEY
    """Column of the score in img2dataset shards: the `--score-col` of `download`."""
    class_col: str = CLASS_KEY
    """The same for the class, for class-conditional networks."""
    batch_size: int = 64
    """Images at a time."""
    encode_on: Literal["auto", "cpu", "cuda", "xla"] = "auto"
    """Where published encoders run. auto: a GPU or TPU if there is one, else the host CPU."""
    config: Settings

    def run(self) -> None:
        from tpulab_recipes.ddpm.data.encode import encode
        from tpulab_recipes.ddpm.data.encoders import place_encoders

        check_config(self.config)
        self.sign_in()
        hosts: OnHosts = self
        if place_encoders(self.encode_on, self.config):
            import jax

            # JAX would keep the chips, or most of the GPU's memory, for itself.
            jax.config.update("jax_platforms", "cpu")
            hosts = replace(self, platform=None, quiet=True)
        process, processes = hosts.join_slice()
        done = encode(
            self.config,
            self.data_dir,
            self.write_dir,
            self.progress(),
            batch_size=self.batch_size,
            score_col=self.score_col,
            class_col=self.class_col,
            process=process,
            processes=processes,
        )
        print_result(**done)


@dataclass(frozen=True, kw_only=True)
class Train(OnHosts):
    """Train; run it again to resume."""

    preset: Annotated[str, PresetFlag] = "small"
    global_dir: tuple[str, ...]
    """Folder for checkpoints and logs, optionally followed by the folder with the encodings."""
    data_dir: str | None = None
    """Folder with the encodings (not needed for the data set `shapes`)."""
    steps: int | None = None
    """Stop at this step instead of `train.iterations`."""
    accept_changed: tuple[str, ...] = ()
    """Settings that may differ from those of the checkpoint to resume from."""
    tensorboard: bool = False
    """Also write event files for TensorBoard."""
    wandb_project: str | None = None
    """Also log to this project at Weights & Biases."""
    wandb_run: str | None = None
    """Name of the run at Weights & Biases."""
    config: Settings

    def run(self) -> None:
        from tpulab_recipes.common.log_writers import open_writers
        from tpulab_recipes.common.storage import Folder, only_writer
        from tpulab_recipes.ddpm.data.pipeline import EncodingSource, open_source
        from tpulab_recipes.ddpm.model.unet import Network
        from tpulab_recipes.ddpm.training.checkpoint import describe_data
        from tpulab_recipes.ddpm.training.evaluator import evaluator_for
        from tpulab_recipes.ddpm.training.trainer import Figures, Trainer

        config = self.config
        check_config(config)
        global_dir, *more = self.global_dir or ("",)
        if not global_dir or len(more) > 1 or (more and self.data_dir):
            raise ConfigError(
                "--global-dir", "takes one folder, and after it at most the folder with the encodings."
            )
        process, processes = self.join_slice()
        source = open_source(config, more[0] if more else self.data_dir, process=process, processes=processes)
        logs = config.train.log_dir.format(global_dir.rstrip("/"))
        wanted = self.tensorboard, self.wandb_project, self.wandb_run
        writers = open_writers(logs, *wanted, to_dict(config)) if process == 0 else []
        progress = self.progress(process == 0)
        shown = 0

        def show(figures: Figures) -> None:
            nonlocal shown
            progress.advance(figures.step - shown, str(figures))
            shown = figures.step

        evaluator = evaluator_for(Network(config), source) if config.train.snapshot_freq else None
        until = self.steps or config.train.iterations
        alone = only_writer(global_dir) if process == 0 else nullcontext()
        with (
            alone,
            Trainer(
                config,
                source,
                global_dir=global_dir,
                writers=writers,
                evaluate=evaluator,
                on_log=show,
                accept_changed=self.accept_changed,
            ) as trainer,
        ):
            shown = trainer.step
            if process == 0:
                Folder(global_dir).make().put("config.json", json.dumps(to_dict(config), indent=2))
            began = trainer.resumed_at
            where = "from the beginning" if began is None else f"resuming at step {began}"
            where += f"; on {describe_data(trainer.data)}"
            if isinstance(source, EncodingSource):
                where += f"; {source.held_out_text}"
            left = "the first step compiles" if shown < until else f"nothing is left up to step {until}"
            progress.start("train", max(0, until - shown), f"{where}; {left}")
            trainer.train(until)
            progress.finish()
            last = trainer.history[-1].as_dict() if trainer.history else {}
            if process == 0:
                print_result(step=trainer.step, **last)


@dataclass(frozen=True, kw_only=True)
class OfCheckpoint(OnHosts):
    checkpoint_dir: str
    """Folder of checkpoints."""
    checkpoint: int | None = None
    """Step of the checkpoint. None: the newest."""
    preset: Annotated[str | None, ConfigFlag] = None
    """Preset or file with the settings. None: those of the checkpoint, not the defaults shown below."""
    #: The command itself: its settings are read again when the checkpoint is known.
    argv: tyro.conf.Suppress[tuple[str, ...]] = ()
    config: Settings

    @contextmanager
    def loaded(self) -> Iterator[tuple[Config, Any, bool]]:
        """The configuration and the averaged weights of the checkpoint. Of a student (the last value says if
        it is one), the configuration has the number of sampling steps."""
        from tpulab_recipes.ddpm.model.unet import Network
        from tpulab_recipes.ddpm.training.checkpoint import CheckpointFolder, newest_whole
        from tpulab_recipes.runtime.jax_mesh import make_mesh

        place = self.checkpoint_dir
        if "://" not in place and not os.path.isdir(place):
            # A mistyped folder must not be made.
            raise CheckpointError(f"{place} has no checkpoint: there is no such folder.")

        def load(folder: CheckpointFolder, step: int | None) -> tuple[Config, Any, bool]:
            config = load_config(self.preset) if self.preset else folder.config(step)
            # Students are saved with the number of their steps.
            steps = folder.about(step).get("sampling_steps")
            if steps:
                config = config.but({"model.eval_sampling_num_steps": steps})
            # Applies the flags again, over the settings that are known only now.
            again = read(self.argv, config)
            assert isinstance(again, OfCheckpoint)
            check_config(again.config)
            return again.config, folder.load(Network(again.config), make_mesh(), step).ema, bool(steps)

        with CheckpointFolder(place) as folder:
            chosen = newest_whole([folder], load) if self.checkpoint is None else None
            found = chosen or load(folder, self.checkpoint)
        yield found


@dataclass(frozen=True, kw_only=True)
class Evaluate(WithEncoders, OfCheckpoint):
    """Sample images for prompts."""

    save_dir: str
    """Folder for the images."""
    max_batch_size: int = 64
    """Images at a time."""
    guidance_scale: float | None = None
    """None: 3.5, or 1 for a student, whose weights contain its teacher's guidance."""
    prompt: str = ""
    """Prompts, separated by ";"."""
    classes: str = ""
    """Classes, separated by commas, for class-conditional networks."""
    num_images: int = 1
    """Images for each prompt."""
    save_images: int = 1000
    """Images to save; those above only count for the distance and the score."""
    num_steps: int | None = None
    """Sampling steps. None: the configuration's, or the student's."""
    aesth_score: float = 6.5
    """Aesthetic score to condition on."""
    npz: bool = False
    """Also save these images and their latents as arrays."""
    inpaint: str | None = None
    """An image to change; needs `--mask`."""
    mask: str | None = None
    """An image that is white where the other is repainted."""
    reference_dir: str | None = None
    """Folder with image shards: also print the distance of the samples from these."""
    distance: Literal["frechet", "fid", "kid"] = "frechet"
    """frechet: fixed features, no download. fid, kid: Inception features, as published; kid needs fewer
    images."""
    inception_weights: str = ""
    """File with Inception's weights. Empty: torch's cache, or else a download."""
    clip_model: str = ""
    """A CLIP at Hugging Face, or its folder: also print how well the images fit their prompts by it."""

    def run(self) -> None:
        from tpulab_recipes.common.pictures import grid, png
        from tpulab_recipes.common.storage import Folder
        from tpulab_recipes.ddpm.data.encoders import clip_scores
        from tpulab_recipes.ddpm.model.unet import Network
        from tpulab_recipes.ddpm.prompts import context_for, decode_images
        from tpulab_recipes.ddpm.sampler import Sampler
        from tpulab_recipes.images.comparison import Comparison
        from tpulab_recipes.runtime.jax_hosts import batches_over_hosts
        from tpulab_recipes.runtime.jax_mesh import state_of_this_host

        for flag, value in (
            ("--num-images", self.num_images),
            ("--save-images", self.save_images),
            ("--max-batch-size", self.max_batch_size),
            ("--num-steps", self.num_steps),
        ):
            if value is not None and value < 1:
                raise ConfigError(flag, f"must be at least 1, not {value}.")
        self.sign_in()
        process, _ = self.join_slice()
        with self.loaded() as (config, params, is_student):
            # A student has its teacher's guidance in its weights.
            guidance = self.guidance_scale
            if guidance is None:
                guidance = 1.0 if is_student else DEFAULT_GUIDANCE
            prompts, classes = self._prompts(config)
            if self.clip_model and not any(prompts):
                raise ConfigError("--clip-model", "scores prompts; give some with --prompt.")
            compare = None
            if self.reference_dir:
                args = config.dataset.args
                kind = self.distance, self.inception_weights
                compare = Comparison(self.reference_dir, args.image_size, args.image_format, *kind)
                compare.check(len(prompts))
            out = Folder(self.save_dir)
            if process == 0:
                out.make()
            batch = min(self.max_batch_size, len(prompts))
            sampler = Sampler(Network(config), batch, is_guided=guidance != 1.0)
            params, given = state_of_this_host(params), self._inpainting(config)

            def make(first: int, last: int) -> tuple[np.ndarray, ...]:
                context = context_for(
                    prompts[first:last],
                    config,
                    aesth_score=self.aesth_score,
                    classes=None if classes is None else classes[first:last],
                )
                latents = sampler(
                    params,
                    context,
                    seed=config.seed + first,
                    steps=self.num_steps,
                    guidance=guidance,
                    **{name: np.repeat(value, last - first, axis=0) for name, value in given.items()},
                )
                return latents[: last - first], decode_images(latents[: last - first], config)

            progress = self.progress(process == 0)
            progress.start("sample", len(prompts), "the first images compile")
            pieces: list[tuple[np.ndarray, ...]] = []
            scores: list[float] = []
            done = 0
            for latents, images in batches_over_hosts(len(prompts), batch, make):
                if done < self.save_images:
                    pieces.append((latents[: self.save_images - done], images[: self.save_images - done]))
                if compare and process == 0:
                    compare.add(images)
                if self.clip_model and process == 0:
                    scores += clip_scores(images, prompts[done : done + batch], self.clip_model, batch)
                done += len(images)
                progress.advance(len(images))
            progress.finish()
        if process:
            return
        latents, images = (np.concatenate(rows) for rows in zip(*pieces, strict=True))
        for index, image in enumerate(images):
            out.put(f"image_{index:04d}.png", png(image))
        columns = min(8, self.num_images) if self.num_images > 1 else 8
        out.put("grid.png", png(grid(images, columns=columns)))
        out.put("prompts.json", json.dumps(prompts, indent=2))
        if self.npz:
            buffer = io.BytesIO()
            np.savez(buffer, images=images, latents=latents)
            out.put("images.npz", buffer.getvalue())
        figures: dict[str, float] = compare.result() if compare else {}
        if scores:
            figures["clip_score"] = float(np.mean(scores))
        print_result(images=done, folder=self.save_dir, **figures)

    def _prompts(self, config: Config) -> tuple[list[str], list[int] | None]:
        conditioning = config.model.conditioning
        if conditioning.num_classes:
            if not self.classes:
                raise ConfigError("--classes", "is needed: this network knows classes, not prompts.")
            try:
                classes = [int(one) for one in self.classes.split(",") for _ in range(self.num_images)]
            except ValueError as error:
                raise ConfigError(
                    "--classes", f"are whole numbers with commas, not {self.classes!r}."
                ) from error
            if unknown := [one for one in classes if not 0 <= one < conditioning.num_classes]:
                raise ConfigError("--classes", f"are 0 to {conditioning.num_classes - 1}, not {unknown[0]}.")
            return [f"class {one}" for one in classes], classes
        prompts = [one.strip() for one in self.prompt.split(";") if one.strip()]
        if not prompts and set(TEXT_STATES) & set(context_shapes(conditioning)):
            raise ConfigError(
                "--prompt", 'is needed, for example --prompt "a small red circle; a large blue cross".'
            )
        return [prompt for prompt in prompts or [""] for _ in range(self.num_images)], None

    def _inpainting(self, config: Config) -> dict[str, np.ndarray]:
        """`known` and `mask` for the sampler, with one row each; nothing where nothing is to be repainted."""
        if not self.inpaint and not self.mask:
            return {}
        if not (self.inpaint and self.mask):
            raise ConfigError("--inpaint", "and --mask go together.")
        from tpulab_recipes.ddpm.data.encoders import encode_images
        from tpulab_recipes.images.files import decode_image, fit_image

        def read(path: str) -> np.ndarray:
            try:
                with open(path, "rb") as file:
                    return fit_image(decode_image(file.read(), path), config.dataset.args.image_size)
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror}.") from error

        image, painted = read(self.inpaint), read(self.mask)[..., 0] > 127
        size = config.in_dimensions[0]
        step = painted.shape[0] // size
        blocks = painted[: size * step, : size * step].reshape(1, size, step, size, step, 1)
        # A latent is repainted when any of its pixels is.
        mask = np.asarray(blocks.any(axis=(2, 4)), np.float32)
        return {"known": encode_images(image.astype(np.float32)[None] / 127.5 - 1, config), "mask": mask}


@dataclass(frozen=True, kw_only=True)
class Distill(OfCheckpoint):
    """Repeatedly halve the number of sampling steps that a network needs."""

    write_dir: str
    """Folder for the students."""
    data_dir: str | None = None
    """Folder with the encodings (not needed for the data set `shapes`)."""
    guidance_scale: float = 1.0
    """Guidance scale to distil into the student."""

    def run(self) -> None:
        from tpulab_recipes.ddpm.data.pipeline import open_source
        from tpulab_recipes.ddpm.model.unet import Network
        from tpulab_recipes.ddpm.training.checkpoint import CheckpointFolder
        from tpulab_recipes.ddpm.training.distiller import Distiller
        from tpulab_recipes.ddpm.training.train_step import place_state, state_of
        from tpulab_recipes.runtime.jax_mesh import make_mesh, whole_state

        process, processes = self.join_slice()
        progress = self.progress(process == 0)
        with self.loaded() as (config, teacher, _):
            source = open_source(config, self.data_dir, process=process, processes=processes)
            distill = config.distill
            rounds = CheckpointFolder(posixpath.join(self.write_dir, "under_way"), keep=1)
            with CheckpointFolder(self.write_dir) as out, rounds:
                # A saved student is the next teacher; its folder is numbered by the completed halvings.
                done = out.latest() or 0
                steps = distill.start_num_steps
                if done:
                    steps = out.about(done)["sampling_steps"]
                    teacher = out.load(Network(config), make_mesh(), done).ema
                distiller = Distiller(
                    config, source, teacher, guidance=self.guidance_scale, steps=steps, rounds_done=done
                )
                halvings = max(0, int(np.log2(steps / distill.end_num_steps)))
                progress.start("distill", halvings * distill.steps_per_halving, f"from {steps} steps")

                while distiller.steps > distill.end_num_steps:
                    under_way = None
                    halvings_before, number = divmod(rounds.latest() or 0, distill.steps_per_halving)
                    if number and halvings_before == done:
                        rounds.refuse_changes(config, may_change=())
                        under_way = rounds.load(distiller.network, distiller.mesh)
                        progress.advance(number, f"resuming after {number} updates")
                    found = distiller.halve(
                        lambda *_: progress.advance(1),
                        under_way=under_way,
                        keep=lambda state: rounds.save(state, config),
                    )
                    done += 1
                    state = state_of(distiller.network, whole_state(distiller.params))
                    state = place_state(state._replace(step=np.asarray(done, np.int32)), distiller.mesh)
                    out.save(state, config, {"sampling_steps": found.steps, "loss": found.loss})
                    progress.advance(0, f"{found.steps} steps, loss {found.loss:.4f}")
                progress.finish()
        if process == 0:
            print_result(sampling_steps=distiller.steps, halvings=done, folder=self.write_dir)


@dataclass(frozen=True, kw_only=True)
class Export(OfCheckpoint):
    """Write a folder that diffusers loads."""

    write_dir: str
    """Output folder."""
    with_encoders: bool = False
    """Also store the published text encoders and VAE, so that the folder makes images from prompts by itself
    (CLIP, T5-XXL and the VAE of `laion256`: 21 GB)."""

    def run(self) -> None:
        from tpulab_recipes.ddpm.export.exporter import write_export
        from tpulab_recipes.runtime.jax_mesh import whole_state

        process, _ = self.join_slice()
        with self.loaded() as (config, params, _):
            if process == 0:
                write_export(whole_state(params), config, self.write_dir, with_encoders=self.with_encoders)
                print_result(folder=self.write_dir)


@dataclass(frozen=True, kw_only=True)
class Benchmark(WithProgress):
    """Training speed on this device, as a table."""

    configs: tuple[str, ...] = ("small", "laion256")
    """Presets or files."""
    batch_size: tuple[int, ...] = ()
    """Images on this host: one number for all configurations, or one for each. Empty: their own."""
    steps: int = 10
    """Steps to measure."""
    compile_for: tuple[str, ...] | None = None
    """Compile ahead of time for these chips (v4, v5e, v5p, v6e; no name: all) instead of running; needs
    libtpu."""

    def run(self) -> None:
        from tpulab_recipes.ddpm.training.benchmark import compiled_rows, format_table, measured_rows

        sizes: Sequence[int | None] = self.batch_size or (None,)
        if len(sizes) == 1:
            sizes = tuple(sizes) * len(self.configs)
        if len(sizes) != len(self.configs):
            raise ConfigError("--batch-size", "takes one number, or one for each configuration.")
        pairs = [(name, load_config(name), size) for name, size in zip(self.configs, sizes, strict=True)]
        if self.compile_for is not None:
            rows = list(compiled_rows(pairs, self.compile_for or None, self.progress()))
        else:
            rows = list(measured_rows(pairs, self.steps, self.progress()))
        print(format_table(rows))
        print_result(rows=rows)


ABOUT = "Diffusion models in JAX. Folders may be local or gs://bucket/path."
COMMANDS = (Download, Import, Shapes, Encode, Train, Evaluate, Distill, Export, Benchmark)


def read(argv: Sequence[str], config: Config | None = None) -> WithProgress:
    """The command in `argv`. The flags of settings change `config`, or the preset that `argv` names.

    Prints what is wrong, with the nearest flag, and exits with 2 for an invalid flag or value; exits
    with 0 after `--help`. Raises `ConfigError` for a preset or file that cannot be read.
    """
    config = config or load_config(preset_argument(argv, "--config") or "small")
    command: WithProgress = choose_command(COMMANDS, "ddpm", ABOUT, argv, config=config, argv=tuple(argv))
    return command
