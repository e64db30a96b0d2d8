"""Progressive distillation: a student that needs half of its teacher's steps, and again, from 64 down to 4.

Each round starts from the teacher's weights and follows Salimans & Ho 2022 (arXiv 2202.00512): x as the
target, weights of at least one, a learning rate that falls to zero, no dropout, no averaging. Prompts are
kept: the student is distilled with guidance already in it when `guidance` is not 1 (Meng et al. 2022, arXiv
2210.03142, for one fixed scale).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import Source
from tpulab_recipes.ddpm.diffusion import diffuse, guided, interpret, weighted_error
from tpulab_recipes.ddpm.distillation import distillation_target
from tpulab_recipes.ddpm.hosts import compile_on_all_hosts
from tpulab_recipes.ddpm.masks import draw_masks
from tpulab_recipes.ddpm.model.context import unconditional
from tpulab_recipes.ddpm.model.network import Network
from tpulab_recipes.ddpm.optimizer import clip_gradient, make_optimizer
from tpulab_recipes.ddpm.sampling import Levels, sampling_levels
from tpulab_recipes.ddpm.schedules import schedule_from
from tpulab_recipes.runtime.jax_mesh import (
    batch_sharding,
    gathered,
    make_mesh,
    put_batch,
    put_state,
    replicated,
    state_sharding,
    whole_state,
)
from tpulab_recipes.runtime.prefetch import prefetched

Array: TypeAlias = jax.Array


@dataclass(frozen=True)
class Round:
    """One halving."""

    steps: int
    loss: float


class UnderWay(NamedTuple):
    """What a round has come to after `done` updates."""

    done: int
    student: Any
    moments: Any


#: Called with (student's steps, position in the round, loss so far, or None while it is not known).
OnStep = Callable[[int, int, Array], None]


class Distiller:
    """Distils round by round. `params` is the newest student, `steps` what it needs; one program serves all
    rounds."""

    def __init__(
        self,
        config: Config,
        source: Source,
        teacher: Any,
        *,
        guidance: float = 1.0,
        mesh: Mesh | None = None,
        steps: int | None = None,
        rounds_done: int = 0,
    ) -> None:
        """`rounds_done`: halvings that `teacher` has behind it, when a distillation goes on. Raises
        `ConfigError` for networks that say the noise."""
        if config.model.mean_type == "eps":
            raise ConfigError(
                "model.mean_type",
                "networks that say the noise (eps) cannot be distilled: at the first levels nearly all is "
                "noise, and what they say of the image is its error times a thousand and more. Train the "
                "teacher with model.mean_type=v.",
            )
        # Dropout and dropping of conditioning are for training from data.
        model = replace(config.model, args=replace(config.model.args, dropout=0.0))
        self.config = replace(config, model=model)
        self.source, self.mesh = source, mesh or make_mesh()
        self.network = Network(self.config)
        self.schedule = schedule_from(config.model.eval_alpha_schedule)
        self.params, self.steps = teacher, steps or config.distill.start_num_steps
        self.guidance = guidance
        self.rounds: list[Round] = []
        self._rounds_before = rounds_done
        self._optimizer = make_optimizer(replace(config.train, weight_decay=0.0))
        shardings = state_sharding(self.mesh, self.network.shapes)
        everywhere = replicated(self.mesh)
        self._moments = jax.eval_shape(self._optimizer.init, self.network.shapes)
        moments = state_sharding(self.mesh, self._moments)
        self._run = jax.jit(
            self._step,
            in_shardings=(
                shardings,
                moments,
                shardings,
                batch_sharding(self.mesh),
                *([everywhere] * 4),
            ),
            out_shardings=(shardings, moments, everywhere),
            donate_argnums=(0, 1),
        )
        self._place = shardings, moments

    def halve(
        self,
        on_step: OnStep | None = None,
        updates: int | None = None,
        *,
        under_way: UnderWay | None = None,
        keep: Callable[[UnderWay], None] | None = None,
    ) -> Round:
        """One round. Afterwards `steps` is half of what it was.

        `keep` is given what the round has come to, every `distill.save_freq` updates; `under_way` is that,
        for a round that was interrupted after it.
        """
        if self.steps % 2:
            raise ValueError(f"{self.steps} steps cannot be halved")
        distill = self.config.distill
        updates = updates or distill.steps_per_halving
        teacher = put_state(self.params, self._place[0])
        if under_way is None:
            # A copy: the step gives the student up for the next one.
            zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._moments)
            under_way = UnderWay(0, whole_state(teacher), zeros)
        student = put_state(under_way.student, self._place[0])
        moments = put_state(under_way.moments, self._place[1])
        # Arrays of the host, alike on all hosts: those of a device belong to one host.
        levels = jax.tree.map(np.asarray, sampling_levels(self.schedule, self.steps))
        rounds = self._rounds_before + len(self.rounds)
        # The teacher of the first round is guided; from then on guidance is in the weights.
        scale = np.asarray(1.0 if rounds else self.guidance, np.float32)
        losses = []
        # A round reads and draws what it would have without an interruption before it.
        first = rounds * updates
        placed = (put_batch(batch, self.mesh) for batch in self.source.batches(first + under_way.done))
        with prefetched(placed, 2) as batches:
            for number in range(under_way.done, updates):
                # A falling rate and a number, as arrays: the same program for all rounds and steps.
                rate = np.asarray(distill.learning_rate * (1 - number / updates), np.float32)
                told = (next(batches), rate, np.asarray(first + number, np.int32), levels, scale)
                if not self.compilations():
                    compile_on_all_hosts(self._run, student, moments, teacher, *told)
                student, moments, loss = self._run(student, moments, teacher, *told)
                losses.append(loss)
                whole = distill.save_freq and (number + 1) % distill.save_freq == 0
                if keep and whole and number + 1 < updates:
                    keep(UnderWay(number + 1, student, moments))
                if on_step:
                    on_step(self.steps // 2, number + 1, loss)
        self.params, self.steps = student, self.steps // 2
        tail = np.array([float(loss) for loss in losses[-max(1, updates // 4) :]])
        self.rounds.append(Round(self.steps, float(tail.mean())))
        return self.rounds[-1]

    def compilations(self) -> int:
        return int(self._run._cache_size())

    def _step(
        self,
        student: Any,
        moments: Any,
        teacher: Any,
        batch: Mapping[str, Array],
        rate: Array,
        number: Array,
        levels: Levels,
        scale: Array,
    ) -> tuple[Any, Any, Array]:
        model, conditioning = self.config.model, self.config.model.conditioning
        x = batch["image"].astype(jnp.float32)
        key = jax.random.fold_in(jax.random.key(self.config.seed + 77), number)
        keys = jax.random.split(key, 3)
        # A student's step i goes over the teacher's steps 2 i and 2 i + 1.
        place = 2 * jax.random.randint(keys[0], (x.shape[0],), 0, levels.count // 2)
        start, middle, end = (levels.logsnr[place + offset] for offset in range(3))
        z = diffuse(x, start, jax.random.normal(keys[1], x.shape))
        context = {name: value for name, value in batch.items() if name != "image"}
        if conditioning.inpainting:
            context |= {"mask": draw_masks(keys[2], x.shape[0], x.shape[1]), "known": x}
        nothing = unconditional(context, conditioning)
        copy = gathered(self.network.compute_copy(teacher), self.mesh)

        def teach(z: Array, logsnr: Array) -> Array:
            told = self.network.apply(copy, z, logsnr, context)
            # A scale of 1 is the plain conditional network: its other half need not be run.
            return jax.lax.cond(
                scale == 1.0,
                lambda: told,
                lambda: guided(told, self.network.apply(copy, z, logsnr, nothing), scale),
            )

        goal = jax.lax.stop_gradient(
            distillation_target(teach, z, start, middle, end, model.mean_type, model.eval_clip_denoised)
        )

        def loss_of(params: Any) -> Array:
            compute = gathered(self.network.compute_copy(params), self.mesh)
            said = interpret(self.network.apply(compute, z, start, context), z, start, model.mean_type)
            # The teacher's x, seen through the network's own kind, keeps the error finite at every noise
            # level.
            error = weighted_error(said.x, goal, start, "x", self.config.distill.mean_loss_weight_type)
            return error.mean()

        loss, gradient = jax.value_and_grad(loss_of)(student)
        gradient, _ = clip_gradient(gradient, self.config.train.grad_clip)
        updates, moments = self._optimizer.update(gradient, moments, student)
        student = jax.tree.map(lambda p, u: p - rate * u, student, updates)
        return student, moments, loss
