"""The compiled sampler: one program for every prompt, number of steps, guidance and mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from tpulab_recipes.ddpm.config import context_shapes
from tpulab_recipes.ddpm.diffusion.diffusion import guided, schedule_from
from tpulab_recipes.ddpm.diffusion.sampling import Inpainting, Levels, sample_loop, sampling_levels
from tpulab_recipes.ddpm.model.context import unconditional
from tpulab_recipes.ddpm.model.unet import Network
from tpulab_recipes.runtime.jax_mesh import (
    batch_sharding,
    gathered,
    is_on_this_host,
    mesh_of,
    replicated,
    state_of_this_host,
    state_sharding,
)


class Sampler:
    """Makes images of a network. Batches of any size up to `batch` run in the same program."""

    def __init__(
        self, network: Network, batch: int, sampler: str | None = None, *, is_guided: bool = True
    ) -> None:
        """Without `is_guided` the network is run once a step instead of twice, and `guidance` must be 1: for
        students that were distilled with guidance."""
        self.network, self.batch, self.is_guided = network, batch, is_guided
        config = network.config
        self.config = config
        self.kind = sampler or config.sampler
        self.schedule = schedule_from(config.model.eval_alpha_schedule)
        self._run = jax.jit(self._sample, static_argnames="mesh")

    def __call__(
        self,
        params: Any,
        context: Mapping[str, Any],
        *,
        seed: int = 0,
        steps: int | None = None,
        guidance: float = 1.0,
        known: np.ndarray | None = None,
        mask: np.ndarray | None = None,
        noise: np.ndarray | None = None,
    ) -> np.ndarray:
        """Float32[image, height, width, channel].

        `context` as `context_for` makes it. `mask` is 1 where `known` is to be generated. `noise` replaces
        the noise of the seed.
        """
        count = len(next(iter(context.values()))) if context else self.batch
        if not 1 <= count <= self.batch:
            raise ValueError(f"this sampler makes 1 to {self.batch} images at a time, not {count}")
        if guidance != 1.0 and not self.is_guided:
            raise ValueError(f"this sampler has no guidance (is_guided=False): a scale of 1, not {guidance}")
        # With parameters on several hosts, each host samples all images itself, because each needs them.
        if not is_on_this_host(params):
            params = state_of_this_host(params)
        # Each device with the parameters generates its share of the images.
        mesh, shape = mesh_of(params), self.config.in_dimensions
        known = np.zeros((count, *shape), np.float32) if known is None else known
        mask = np.ones((count, *shape[:2], 1), np.float32) if mask is None else mask
        key = jax.random.key(seed)
        if noise is None:
            noise = np.asarray(jax.random.normal(jax.random.fold_in(key, 0), (self.batch, *shape)))[:count]
        rows = -(-self.batch // mesh.size) * mesh.size

        def placed(values: Any) -> Array:
            values = np.asarray(values)
            missing = np.zeros((rows - len(values), *values.shape[1:]), values.dtype)
            return jax.device_put(np.concatenate([values, missing]), batch_sharding(mesh))

        levels = sampling_levels(self.schedule, steps or self.config.model.eval_sampling_num_steps)
        everywhere = replicated(mesh)
        made = self._run(
            jax.device_put(params, state_sharding(mesh, params)),
            placed(noise),
            {name: placed(value) for name, value in context.items()},
            placed(known),
            placed(mask),
            np.asarray(guidance, np.float32),
            jax.device_put(levels, everywhere),
            # The noise above is the first child of `key`, so the loop draws from the second child.
            jax.device_put(jax.random.fold_in(key, 1), everywhere),
            mesh=mesh,
        )
        return np.asarray(made)[:count]

    def _sample(
        self,
        params: Any,
        noise: Array,
        context: Mapping[str, Array],
        known: Array,
        mask: Array,
        guidance: Array,
        levels: Levels,
        key: Array,
        mesh: Mesh,
    ) -> Array:
        model, network = self.config.model, self.network
        # Gathered once, before the loop.
        params = gathered(network.compute_copy(params), mesh)
        conditioning = model.conditioning
        context = dict(context)
        if conditioning.inpainting:
            context |= {"mask": mask, "known": known}
        nothing = unconditional(context, conditioning)
        both = {name: _pairs(context[name], nothing[name]) for name in context}

        def denoise(z: Array, logsnr: Array) -> Array:
            if not self.is_guided or not context_shapes(conditioning):
                return network.apply(params, z, logsnr, context)
            output = network.apply(params, _pairs(z, z), _pairs(logsnr, logsnr), both)
            return guided(output[::2], output[1::2], guidance)

        x = sample_loop(
            denoise,
            noise,
            levels,
            key,
            mean_type=model.mean_type,
            sampler=self.kind,
            logvar_type=model.logvar_type,
            logvar_coefficient=model.logvar_coeff,
            clip=model.eval_clip_denoised,
            # A network that was not trained to inpaint is guided by restoring the known part at every step.
            known=None if conditioning.inpainting else Inpainting(known, mask),
        )
        return mask * x + (1 - mask) * known

    def compilations(self) -> int:
        """How many programs have been compiled for this sampler."""
        return int(self._run._cache_size())


def _pairs(one: Array, other: Array) -> Array:
    """Interleaves the rows of both arrays: each device keeps its own. Concatenation would move half."""
    return jnp.stack([one, other], axis=1).reshape(-1, *one.shape[1:])
