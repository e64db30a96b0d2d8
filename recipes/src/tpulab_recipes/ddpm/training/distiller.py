"""Progressive distillation: a student that needs half of its teacher's steps, repeated from 64 down to 4.

Each round starts from the teacher's weights and follows Salimans & Ho 2022 (arXiv 2202.00512): x as the
target, weights of at least one, a learning rate that falls to zero, no dropout, no averaging. Prompts are
kept: the student is distilled with guidance already in it when `guidance` is not 1 (Meng et al. 2022, arXiv
2210.03142, for one fixed scale).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from tpulab_recipes.common import interruption
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.interruption import Interrupted, stoppable
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import Source
from tpulab_recipes.ddpm.diffusion.diffusion import (
    Denoiser,
    alpha_sigma,
    diffuse,
    guided,
    interpret,
    schedule_from,
    spread,
    weighted_error,
)
from tpulab_recipes.ddpm.diffusion.sampling import Levels, ddim_step, sampling_levels
from tpulab_recipes.ddpm.model.context import draw_masks, unconditional
from tpulab_recipes.ddpm.model.unet import Network
from tpulab_recipes.ddpm.training.step_cost import refuse_too_large
from tpulab_recipes.ddpm.training.train_step import (
    LossFunction,
    TrainState,
    compile_step,
    place_state,
    state_of,
)
from tpulab_recipes.runtime.jax_hosts import compile_on_all_hosts
from tpulab_recipes.runtime.jax_mesh import (
    gathered,
    make_mesh,
    put_batch,
    put_state,
    replicated,
    state_sharding,
    whole_state,
)
from tpulab_recipes.runtime.prefetch import prefetched


@dataclass(frozen=True)
class Round:
    """One halving."""

    steps: int
    loss: float


#: Called with (student's steps, position in the round, loss so far or None).
OnStep = Callable[[int, int, Array], None]


class Distiller:
    """Distils round by round: the training step with another loss. `params` is the newest student, `steps`
    what it needs; one program serves all rounds."""

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
        """`rounds_done`: the number of halvings that led to `teacher`, in a resumed distillation. Raises
        `ConfigError` for networks that predict the noise."""
        if config.model.mean_type == "eps":
            raise ConfigError(
                "model.mean_type",
                "networks that predict the noise (eps) cannot be distilled: at the first levels nearly all "
                "is noise, and their estimate of the image is its error times a thousand and more. Train the "
                "teacher with model.mean_type=v.",
            )
        distill = config.distill
        # Dropout and dropping of conditioning are for training from data; the rate falls from outside.
        changes = {
            "model.args.dropout": 0.0,
            "train.weight_decay": 0.0,
            "train.learning_rate_warmup_steps": 1,
            "train.max_learning_rate": distill.learning_rate,
            "train.min_learning_rate": distill.learning_rate,
            # Different noise from the teacher's training.
            "seed": config.seed + 77,
        }
        self.config = config.but(changes)
        self.source, self.mesh = source, mesh or make_mesh()
        self.network = Network(self.config)
        refuse_too_large(self.network, self.mesh)
        self.schedule = schedule_from(config.model.eval_alpha_schedule)
        self.params, self.steps = teacher, steps or distill.start_num_steps
        self.guidance = guidance
        self.rounds: list[Round] = []
        self._rounds_before = rounds_done
        self._place = state_sharding(self.mesh, self.network.shapes)
        places = self._place, replicated(self.mesh), replicated(self.mesh)
        self._step = compile_step(self.network, self.mesh, distillation_loss(self.network, self.mesh), places)

    def halve(
        self,
        on_step: OnStep | None = None,
        updates: int | None = None,
        *,
        under_way: TrainState | None = None,
        keep: Callable[[TrainState], object] | None = None,
    ) -> Round:
        """One round. Afterwards `steps` is half of what it was.

        Every `distill.save_freq` updates, `keep` receives the state of the round. `under_way` is such a
        state, of an interrupted round.
        """
        if self.steps % 2:
            raise ValueError(f"{self.steps} steps cannot be halved")
        distill = self.config.distill
        updates = updates or distill.steps_per_halving
        rounds = self._rounds_before + len(self.rounds)
        teacher = put_state(self.params, self._place)
        state = under_way
        if state is None:
            # A copy, because the step donates the student's buffers. Steps are counted through all rounds.
            state = state_of(self.network, whole_state(teacher))
            state = place_state(state._replace(step=np.asarray(rounds * updates, np.int32)), self.mesh)
        # Host arrays, equal on all hosts: device arrays would belong to one host.
        levels = jax.tree.map(np.asarray, sampling_levels(self.schedule, self.steps))
        # The teacher of the first round is guided; from then on guidance is in the weights.
        scale = np.asarray(1.0 if rounds else self.guidance, np.float32)
        losses = []
        # A round reads the same data and draws the same numbers as without an interruption.
        first = int(state.step)
        placed = (put_batch(batch, self.mesh) for batch in self.source.batches(first))
        with stoppable(), prefetched(placed, 2) as batches:
            for number in range(first - rounds * updates, updates):
                # A falling rate, as an array: the same program for all rounds and steps. No average.
                rate = distill.learning_rate * (1 - number / updates)
                hyper = {"learning_rate": np.float32(rate), "ema_decay": np.float32(0)}
                arguments = state, next(batches), hyper, teacher, levels, scale
                if not self.compilations():
                    compile_on_all_hosts(self._step, *arguments)
                state, figures = self._step(*arguments)
                losses.append(figures["loss"])
                whole = distill.save_freq and (number + 1) % distill.save_freq == 0
                stopped = interruption.requested() and jax.process_count() == 1
                if keep and (whole or stopped) and number + 1 < updates:
                    keep(state)
                    if stopped:
                        raise Interrupted(f" after {number + 1:,} updates of a halving, which are saved")
                if on_step:
                    on_step(self.steps // 2, number + 1, losses[-1])
        self.params, self.steps = state.params, self.steps // 2
        tail = np.array([float(loss) for loss in losses[-max(1, updates // 4) :]])
        self.rounds.append(Round(self.steps, float(tail.mean())))
        return self.rounds[-1]

    def compilations(self) -> int:
        return int(self._step._cache_size())


def distillation_loss(network: Network, mesh: Mesh) -> LossFunction:
    """The loss of a round. Its arguments are the teacher, the teacher's noise levels, and the scale of its
    guidance."""
    config = network.config
    model, conditioning = config.model, config.model.conditioning

    def loss(
        params: Any, batch: Mapping[str, Array], key: Array, teacher: Any, levels: Levels, scale: Array
    ) -> Array:
        x = batch["image"].astype(jnp.float32)
        keys = jax.random.split(key, 3)
        # A student's step i goes over the teacher's steps 2 i and 2 i + 1.
        place = 2 * jax.random.randint(keys[0], (x.shape[0],), 0, levels.count // 2)
        start, middle, end = (levels.logsnr[place + offset] for offset in range(3))
        z = diffuse(x, start, jax.random.normal(keys[1], x.shape))
        context = {name: value for name, value in batch.items() if name != "image"}
        if conditioning.inpainting:
            context |= {"mask": draw_masks(keys[2], x.shape[0], x.shape[1]), "known": x}
        nothing = unconditional(context, conditioning)
        copy = gathered(network.compute_copy(teacher), mesh)

        def teach(z: Array, logsnr: Array) -> Array:
            conditional = network.apply(copy, z, logsnr, context)
            # A scale of 1 is the plain conditional network: its other half need not be run.
            return jax.lax.cond(
                scale == 1.0,
                lambda: conditional,
                lambda: guided(conditional, network.apply(copy, z, logsnr, nothing), scale),
            )

        goal = jax.lax.stop_gradient(
            distillation_target(teach, z, start, middle, end, model.mean_type, model.eval_clip_denoised)
        )
        estimate = interpret(network.apply(params, z, start, context), z, start, model.mean_type)
        # The teacher's x, seen through the network's own kind, keeps the error finite at every noise level.
        return weighted_error(estimate.x, goal, start, "x", config.distill.mean_loss_weight_type).mean()

    return loss


def distillation_target(
    teacher: Denoiser, z: Array, start: Array, middle: Array, end: Array, mean_type: str, clip: bool = False
) -> Array:
    """The x with which one DDIM step from `start` to `end` lands where two steps of the teacher do (algorithm
    2); the log-SNRs rise. Where `end` is infinite it is the teacher's own last x."""
    first = interpret(teacher(z, start), z, start, mean_type, clip)
    z_middle = ddim_step(z, first, middle)
    second = interpret(teacher(z_middle, middle), z_middle, middle, mean_type, clip)
    z_end = ddim_step(z_middle, second, end)
    return target_x(z, z_end, start, end, second.x)


def target_x(z: Array, z_end: Array, start: Any, end: Any, last_x: Array) -> Array:
    """Solves alpha_s x + sigma_s (z - alpha_t x) / sigma_t = z_end for x."""
    alpha_t, sigma_t = alpha_sigma(spread(start, z))
    alpha_s, sigma_s = alpha_sigma(spread(end, z))
    ratio = sigma_s / sigma_t
    x = (z_end - ratio * z) / (alpha_s - ratio * alpha_t)
    return jnp.where(jnp.isinf(spread(end, z)), last_x, x)
