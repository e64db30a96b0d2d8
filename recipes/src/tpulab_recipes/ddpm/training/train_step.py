"""One training step as a pure function, compiled once, with its state in place.

The masters are fp32 and sliced over the devices of a host. The step makes a bf16 copy, gathers it, computes
the loss of each device's images, and updates the slices by Adam with decoupled weight decay. The gradient is
averaged over all devices first and clipped afterwards, so that the update does not depend on how many devices
share the batch. (The origin clipped on each device, before averaging.) All randomness comes from the seed and
the step's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.sharding import Mesh

from tpulab_recipes import runtime
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.ddpm.config import Config, Train
from tpulab_recipes.ddpm.diffusion.diffusion import diffuse, schedule_from, target, weighted_error
from tpulab_recipes.ddpm.model.context import draw_masks, drop_conditioning
from tpulab_recipes.ddpm.model.unet import Network
from tpulab_recipes.runtime.jax_mesh import gathered, replicated

#: Consecutive broken gradients that end the training.
MAX_SKIPPED = 100


def make_optimizer(train: Train) -> optax.GradientTransformation:
    """Everything but the learning rate, which the step multiplies in as an array."""
    return optax.chain(
        optax.scale_by_adam(b1=0.9, b2=train.adam_beta2, eps=1e-8),
        optax.add_decayed_weights(train.weight_decay, mask=_decays),
    )


def _decays(params: Any) -> Any:
    # Norms and biases are not pulled towards zero.
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def learning_rate_factor(step: Array, train: Train) -> Array:
    """Share of the largest learning rate at a step: a linear warm-up, and a cosine down to the smallest."""
    warm = max(train.learning_rate_warmup_steps, 1)
    warmup = optax.linear_schedule(1 / warm, 1.0, warm - 1)
    cosine = optax.cosine_decay_schedule(
        1.0, train.iterations, alpha=train.min_learning_rate / train.max_learning_rate
    )
    return jnp.minimum(warmup(step), cosine(step))


def clip_gradient(gradient: Any, largest: float) -> tuple[Any, Array]:
    """The gradient with a norm of at most `largest` (0: as it is), and the norm before."""
    norm = optax.tree.norm(gradient)
    scale = jnp.minimum(1.0, largest / (norm + 1e-12)) if largest else 1.0
    return jax.tree.map(lambda leaf: leaf * scale, gradient), norm


def default_hyperparameters(config: Config) -> dict[str, np.ndarray]:
    """Values that may change while training runs, as arrays: a change compiles nothing. They are host arrays:
    for device arrays JAX would check at every step, by a gather over all hosts, that they are equal."""
    return {
        "learning_rate": np.asarray(config.train.max_learning_rate, np.float32),
        "ema_decay": np.asarray(config.train.ema_decay, np.float32),
    }


class TrainState(NamedTuple):
    """All that a checkpoint holds."""

    step: Array  # Int[]
    params: Any  # fp32 masters
    ema: Any  # their moving average
    opt_state: Any
    skipped: Array  # Int[]: broken updates so far
    skipped_in_a_row: Array  # Int[]


#: (compute-type parameters, batch, key, and further arguments of the loss) to the loss of one step, Float[].
LossFunction = Callable[..., Array]
#: (state, batch, hyperparameters, further arguments of the loss) to the next state and the step's figures.
TrainStep = Callable[..., tuple[TrainState, dict[str, Array]]]


def state_of(network: Network, params: Any) -> TrainState:
    """The state that starts from these parameters; the average starts as a copy of them."""
    zero = np.zeros((), np.int32)
    moments = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), opt_shapes(network))
    return TrainState(zero, params, jax.tree.map(np.array, params), moments, zero.copy(), zero.copy())


def opt_shapes(network: Network) -> Any:
    """Shapes and types of the optimizer's state."""
    return jax.eval_shape(make_optimizer(network.config.train).init, network.shapes)


def state_shapes(network: Network) -> TrainState:
    """Shapes and types of the state; allocates nothing."""
    count = jax.ShapeDtypeStruct((), jnp.int32)
    return TrainState(count, network.shapes, network.shapes, opt_shapes(network), count, count)


def place_state(state: TrainState, mesh: Mesh) -> TrainState:
    """The state, sliced over the mesh."""
    placed: TrainState = runtime.use("jax").prepare(state, shard=True, mesh=mesh)  # type: ignore[attr-defined]
    return placed


def make_initial_state(network: Network, mesh: Mesh, seed: int) -> TrainState:
    """The initial state on the mesh. Each device gets its slices alone, and no program is compiled for it."""
    return place_state(state_of(network, network.init(seed)), mesh)


def diffusion_loss(network: Network) -> LossFunction:
    """The loss of a configuration: noise is added, the network predicts it, errors are weighted."""
    config = network.config
    model, conditioning = config.model, config.model.conditioning
    schedule = schedule_from(model.train_alpha_schedule, model.train_num_steps, model.tmin)

    def loss(params: Any, batch: Mapping[str, Array], key: Array) -> Array:
        x = batch["image"].astype(jnp.float32)
        if config.dataset.args.random_flip:
            mirrored = jax.random.bernoulli(jax.random.fold_in(key, 5), shape=(x.shape[0], 1, 1, 1))
            x = jnp.where(mirrored, x[:, :, ::-1], x)
        keys = jax.random.split(key, 5)
        logsnr = schedule.draw(keys[0], x.shape[0])
        eps = jax.random.normal(keys[1], x.shape)
        context = {name: value for name, value in batch.items() if name != "image"}
        context = drop_conditioning(context, conditioning, keys[2])
        if conditioning.inpainting:
            context |= {"mask": draw_masks(keys[4], x.shape[0], x.shape[1]), "known": x}
        dropout_key = keys[3] if model.args.dropout else None
        output = network.apply(params, diffuse(x, logsnr, eps), logsnr, context, dropout_key)
        wanted = target(x, eps, logsnr, model.mean_type)
        return weighted_error(output, wanted, logsnr, model.mean_type, model.mean_loss_weight_type).mean()

    return loss


def step_function(network: Network, mesh: Mesh, loss: LossFunction | None = None) -> TrainStep:
    """The step, not yet compiled. Its figures: loss, gradient norm, learning rate, broken updates."""
    config = network.config
    optimizer = make_optimizer(config.train)
    loss = loss or diffusion_loss(network)
    seed = config.seed

    def step(
        state: TrainState, batch: Mapping[str, Array], hyper: Mapping[str, Array], *extra: Any
    ) -> tuple[TrainState, dict[str, Array]]:
        key = jax.random.fold_in(jax.random.key(seed), state.step)

        def loss_of(params: Any) -> Array:
            return loss(gathered(network.compute_copy(params), mesh), batch, key, *extra)

        value, gradient = jax.value_and_grad(loss_of)(state.params)
        gradient, norm = clip_gradient(gradient, config.train.grad_clip)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        rate = hyper["learning_rate"] * learning_rate_factor(state.step, config.train)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        ema = optax.incremental_update(params, state.ema, 1 - hyper["ema_decay"])
        fine = jnp.isfinite(value) & jnp.isfinite(norm)
        if config.train.enable_update_skip:
            old = state.params, state.ema, state.opt_state
            params, ema, opt_state = jax.tree.map(
                lambda new, now: jnp.where(fine, new, now), (params, ema, opt_state), old
            )
        broken = (~fine).astype(jnp.int32)
        new = TrainState(
            state.step + 1,
            params,
            ema,
            opt_state,
            state.skipped + broken,
            (state.skipped_in_a_row + broken) * broken,
        )
        figures = {
            "loss": value,
            "gnorm": norm,
            "learning_rate": rate,
            "skipped": new.skipped,
            "skipped_in_a_row": new.skipped_in_a_row,
        }
        return new, figures

    return step


def compile_step(
    network: Network, mesh: Mesh, loss: LossFunction | None = None, extra: tuple[Any, ...] = ()
) -> Any:
    """The step as one program over the mesh; the old state is donated. `extra`: the shardings of further
    arguments of the loss. Raises `ConfigError` where a batch does not divide among the devices of a host."""
    batch_size, per_host = network.config.train.batch_size, mesh.shape["shard"]
    if batch_size % per_host:
        raise ConfigError(
            "train.batch_size", f"{batch_size} images do not divide among the {per_host} devices of a host."
        )
    step = step_function(network, mesh, loss)
    more = (replicated(mesh), *extra)
    return runtime.use("jax").compile(step, state=state_shapes(network), mesh=mesh, more=more)  # type: ignore[call-arg]
