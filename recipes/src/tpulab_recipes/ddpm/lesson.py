"""What notebook 05 shows: pictures of the data and of the forward process, a live view of the training, a
panel of sliders to sample with, and a mask that is painted by clicking."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tpulab_recipes.common.pictures import grid, png
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.diffusion.diffusion import alpha_sigma, diffuse, schedule_from
from tpulab_recipes.ddpm.prompts import context_for, decode_images
from tpulab_recipes.ddpm.sampler import Sampler
from tpulab_recipes.ddpm.training.evaluator import Evaluation
from tpulab_recipes.ddpm.training.trainer import Figures


def show_images(images: np.ndarray, titles: Sequence[str], columns: int = 8, size: float = 1.15) -> Any:
    """A matplotlib figure of images with a word above each."""
    rows = -(-len(images) // columns)
    lines = 1 + max((title.count("\n") for title in titles), default=0)
    figure, axes = _places(rows, columns, (columns * size, rows * (size + 0.15 * lines)))
    for axis, image, title in zip(axes, images, titles, strict=False):
        axis.imshow((np.clip(image, -1, 1) + 1) / 2)
        axis.set_title(title, fontsize=7)
    return figure


def side_by_side(rows: Sequence[tuple[str, np.ndarray]]) -> Any:
    """A figure with one labelled strip of images for each row."""
    figure, axes = _places(len(rows), 1, (8, 1.2 * len(rows)))
    for axis, (title, images) in zip(axes, rows, strict=True):
        axis.imshow((grid(images, len(images), scale=3) + 1) / 2)
        axis.set_title(title, fontsize=9, loc="left")
    return figure


def show_losses(rows: Sequence[Figures]) -> Any:
    """A figure of the loss and of the gradient's norm over the steps."""
    import matplotlib.pyplot as plt

    return _draw_losses(plt.figure(figsize=(6.5, 3), layout="constrained"), rows)


def _draw_losses(figure: Any, rows: Sequence[Figures]) -> Any:
    loss = figure.subplots()
    steps = [row.step for row in rows]
    loss.plot(steps, [row.loss for row in rows], color="C0")
    loss.set(xlabel="step", ylabel="loss")
    norm = loss.twinx()
    norm.plot(steps, [row.gnorm for row in rows], color="C1", linewidth=1)
    norm.set_ylabel("gradient norm")
    return figure


def _places(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, list[Any]]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat:
        axis.axis("off")
    return figure, list(axes.flat)


def forward_process(latents: np.ndarray, config: Config, steps: int = 8) -> tuple[np.ndarray, list[str]]:
    """The same images with more and more noise, decoded, and the share of signal of each."""
    schedule = schedule_from(config.model.train_alpha_schedule)
    logsnrs = [float("inf"), *reversed(schedule.levels(steps - 1)[:-1])]
    eps = jax.random.normal(jax.random.key(0), latents.shape)
    images, titles = [], []
    for latent, noise in zip(latents, eps, strict=True):
        for logsnr in logsnrs:
            z = diffuse(jnp.asarray(latent)[None], jnp.asarray([logsnr]), noise[None])
            images.append(decode_images(np.asarray(z), config)[0])
            titles.append(f"α {float(alpha_sigma(logsnr)[0]):.2f}")
    return np.stack(images), titles


def _image(**layout: str) -> Any:
    import ipywidgets as widgets

    return widgets.Image(format="png", layout=widgets.Layout(**layout))


class LiveTraining:
    """A widget with the loss, the norm of the gradient, and the newest samples; give its methods to the
    trainer."""

    def __init__(self) -> None:
        import ipywidgets as widgets

        # orbax logs there when a checkpoint waits for the previous one. Below a cell it looks like an error.
        logging.getLogger("absl").setLevel(logging.ERROR)
        self.words = widgets.Label("Compiling the training step; this takes longest.")
        # Hidden while there is no picture: a browser would show a broken-image icon.
        self.curves = _image(width="420px", height="240px", visibility="hidden")
        self.samples = _image(width="320px", object_fit="contain", visibility="hidden")
        self.widget = widgets.VBox([self.words, widgets.HBox([self.curves, self.samples])])
        self.rows: list[Figures] = []
        self.found: list[tuple[int, dict[str, float]]] = []
        #: The first eight samples of each evaluation: of the same noise and captions.
        self.samples_made: list[tuple[int, np.ndarray]] = []

    def on_log(self, figures: Figures) -> None:
        """For `Trainer(on_log=…)`."""
        self.rows.append(figures)
        self.words.value = (
            f"step {figures.step}: loss {figures.loss:.3f}, gradient {figures.gnorm:.2f}, "
            f"{figures.images_per_second:.0f} images/s"
        )
        self._show(self.curves, self._draw())

    def on_evaluation(self, step: int, found: Evaluation) -> None:
        """For `Trainer(on_evaluation=…)`."""
        self.found.append((step, found.figures))
        self.samples_made.append((step, found.images[:8]))
        self._show(self.samples, png(grid(found.images[:32], 8, scale=3)))

    def _show(self, place: Any, picture: bytes) -> None:
        place.value = picture
        place.layout.visibility = "visible"

    def _draw(self) -> bytes:
        import io

        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 3), dpi=80, layout="constrained")
        FigureCanvasAgg(figure)
        _draw_losses(figure, self.rows)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        return buffer.getvalue()


class SamplePanel:
    """Sliders for steps, guidance, score and seed, a line for the prompt, and the picture that they make."""

    def __init__(self, sampler: Sampler, params: Any, prompt: str = "a large red circle") -> None:
        import ipywidgets as widgets

        self._sampler, self._params, self._config = sampler, params, sampler.config
        late = {"continuous_update": False}
        self.prompt = widgets.Text(prompt, description="prompt", **late)
        self.steps = widgets.IntSlider(16, 1, 64, description="steps", **late)
        self.guidance = widgets.FloatSlider(2.0, min=0, max=6, step=0.5, description="guidance", **late)
        self.score = widgets.FloatSlider(9.0, min=2, max=9, step=0.5, description="score", **late)
        self.seed = widgets.IntSlider(0, 0, 99, description="seed", **late)
        self.image = _image(width="400px")
        knobs = [self.prompt, self.steps, self.guidance, self.score, self.seed]
        self.widget = widgets.HBox([widgets.VBox(knobs), self.image])
        for knob in knobs:
            knob.observe(self._changed, names="value")
        self.images = self.draw()

    def draw(self) -> np.ndarray:
        """Makes the picture again."""
        prompts = [self.prompt.value] * self._sampler.batch
        context = context_for(prompts, self._config, aesth_score=self.score.value)
        latents = self._sampler(
            self._params, context, steps=self.steps.value, guidance=self.guidance.value, seed=self.seed.value
        )
        self.images = decode_images(latents, self._config)
        self.image.value = png(grid(self.images, 8, scale=3))
        return self.images

    def _changed(self, _: Any) -> None:
        self.draw()


class MaskPainter:
    """A grid of squares over an image. Click the squares to repaint, then press the button."""

    def __init__(
        self,
        sampler: Sampler,
        params: Any,
        latent: np.ndarray,
        prompt: str,
        on_made: Callable[[], None] | None = None,
    ) -> None:
        import ipywidgets as widgets

        self._sampler, self._params, self._config = sampler, params, sampler.config
        self.latent, self._on_made = latent, on_made
        size = self._config.in_dimensions[0]
        side = widgets.Layout(width="22px", height="22px", margin="0", padding="0")
        self.squares = [
            widgets.ToggleButton(
                description="", tooltip=f"row {i // size + 1}, column {i % size + 1}", layout=side
            )
            for i in range(size * size)
        ]
        board = widgets.GridBox(
            self.squares, layout=widgets.Layout(grid_template_columns=f"repeat({size}, 22px)", grid_gap="1px")
        )
        self.prompt = widgets.Text(prompt, description="prompt")
        self.button = widgets.Button(description="Paint", button_style="primary")
        self.before, self.after = _image(width="184px"), _image(width="370px")
        self.before.value = png(grid(decode_images(latent[None], self._config), 1, scale=6))
        self.button.on_click(lambda _: self.paint())
        self.widget = widgets.VBox([self.prompt, widgets.HBox([self.before, board, self.after]), self.button])
        self.images: np.ndarray | None = None

    @property
    def mask(self) -> np.ndarray:
        """Float32[height, width, 1], 1 where a square is chosen."""
        size = self._config.in_dimensions[0]
        return np.array([square.value for square in self.squares], np.float32).reshape(size, size, 1)

    def choose(self, rows: slice, columns: slice) -> None:
        """Chooses a rectangle of squares, as clicking them would."""
        wanted = np.zeros(self._config.in_dimensions[:2], bool)
        wanted[rows, columns] = True
        for square, value in zip(self.squares, wanted.ravel(), strict=True):
            square.value = bool(value)

    def paint(self) -> np.ndarray:
        """Repaints the chosen squares, in as many ways as the sampler makes images."""
        count = self._sampler.batch
        latents = self._sampler(
            self._params,
            context_for([self.prompt.value] * count, self._config, aesth_score=9.0),
            guidance=2.0,
            known=np.repeat(self.latent[None], count, axis=0),
            mask=np.repeat(self.mask[None], count, axis=0),
        )
        self.images = decode_images(latents, self._config)
        self.after.value = png(grid(self.images, 8, scale=3))
        if self._on_made:
            self._on_made()
        return self.images
