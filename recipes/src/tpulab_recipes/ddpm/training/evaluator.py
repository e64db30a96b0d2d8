"""The evaluator that runs inside the training: samples of the averaged weights, how near they are to the
data, and whether they follow their captions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulab_recipes.common.errors import ConfigError, DataError, MissingPackage
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.encoders import clip_scores, encode_images
from tpulab_recipes.ddpm.data.pipeline import EncodingSource, Source
from tpulab_recipes.ddpm.data.shapes import draw_shapes, recognise
from tpulab_recipes.ddpm.model.unet import Network
from tpulab_recipes.ddpm.prompts import context_for, decode_images
from tpulab_recipes.ddpm.sampler import Sampler
from tpulab_recipes.images.comparison import LEAST, inception_distance, require_inception
from tpulab_recipes.images.frechet import BATCH, frechet_distance, image_features


@dataclass(frozen=True)
class Evaluation:
    """The samples and the results."""

    images: np.ndarray  # Float32[image, height, width, 3]
    captions: list[str]
    #: The distance by its name, `clip_score`, and for shapes `caption_accuracy`, the share of images that
    #: show what their caption says.
    figures: dict[str, float]


class ShapesEvaluator:
    """For captioned shapes: compares with drawings that training has not seen."""

    def __init__(
        self, network: Network, *, count: int = 128, batch: int = 64, steps: int | None = None
    ) -> None:
        self.config: Config = network.config
        self.sampler = Sampler(network, batch)
        self.steps = steps
        held_back = draw_shapes(count, seed=self.config.seed + 1_000_003)
        self.captions, self.shapes, self.scores = held_back.captions, held_back.shapes, held_back.scores
        # One batch: the page would show a loop in a notebook cell as a training.
        reference = draw_shapes(BATCH, seed=self.config.seed + 2_000_003).images
        # What the image encoder cannot express is not the network's fault: compare with decoded images.
        self._reference = image_features(decode_images(encode_images(reference, self.config), self.config))

    def __call__(self, params: Any, *, guidance: float = 2.0, seed: int = 0) -> Evaluation:
        pieces = []
        for first in range(0, len(self.captions), self.sampler.batch):
            captions = self.captions[first : first + self.sampler.batch]
            context = context_for(captions, self.config)
            if "aesth_score" in context:
                context["aesth_score"] = self.scores[first : first + self.sampler.batch]
            latents = self.sampler(params, context, seed=seed + first, guidance=guidance, steps=self.steps)
            pieces.append(decode_images(latents, self.config))
        images = np.concatenate(pieces)
        right = [recognise(image) == shape for image, shape in zip(images, self.shapes, strict=True)]
        figures = {
            "frechet": frechet_distance(self._reference, image_features(images)),
            "caption_accuracy": float(np.mean(right)),
        }
        return Evaluation(images, list(self.captions), figures)


class EncodingsEvaluator:
    """For encoded data: samples with the conditioning of images that were held out of the training, compared
    with those images.

    Where the configuration holds nothing out they are images of the training data, and the figure
    `held_out_images` is 0. Where the encoder for images is not at hand, samples are shown as the first three
    channels of their latents, and there are no figures.
    """

    def __init__(
        self, network: Network, source: EncodingSource, *, count: int = 0, steps: int | None = None
    ) -> None:
        self.config: Config = network.config
        train = self.config.train
        self.shown = source.examples(count or train.snapshot_images)
        self._kind = train.snapshot_distance
        there = len(self.shown.rows["image"])
        if self._kind != "frechet" and there < LEAST[self._kind]:
            raise ConfigError(
                "train.snapshot_images",
                f"{self._kind} compares at least {LEAST[self._kind]:,} images, and there are {there:,}; "
                "sample more, and hold as many out (dataset.held_out_share).",
            )
        if self._kind != "frechet":
            require_inception()
        if train.snapshot_clip and not any(self.shown.captions):
            raise ConfigError(
                "train.snapshot_clip", "scores captions, and those that are held out are empty."
            )
        self._latents = self.shown.rows["image"]
        self._context = {name: value for name, value in self.shown.rows.items() if name != "image"}
        # Few at a time: a large network is being trained in the same memory.
        self.sampler = Sampler(network, min(16, len(self._latents)))
        self.steps = steps
        self._decodes = True

    def __call__(self, params: Any, *, guidance: float = 2.0, seed: int = 0) -> Evaluation:
        rows = range(0, len(self._latents), self.sampler.batch)
        made = np.concatenate(
            [
                self.sampler(
                    params,
                    {name: each[first : first + self.sampler.batch] for name, each in self._context.items()},
                    seed=seed + first,
                    guidance=guidance,
                    steps=self.steps,
                )
                for first in rows
            ]
        )[: len(self._latents)]
        figures: dict[str, float] = {}
        images = np.clip(made[..., :3] / 2, -1, 1)
        try:
            if self._decodes:
                images, data = (
                    np.concatenate(
                        [decode_images(each[at : at + self.sampler.batch], self.config) for at in rows]
                    )
                    for each in (made, self._latents)
                )
        except (DataError, MissingPackage):
            # Not tried again: searching for missing weights may take minutes.
            self._decodes = False
        # A spread needs at least two images.
        if self._decodes and len(data) > 1:
            if self._kind == "frechet":
                # A batch of 512 large images would not fit beside the network.
                features = [image_features(some, batch=self.sampler.batch) for some in (data, images)]
                figures["frechet"] = frechet_distance(*features)
            else:
                theirs, ours = (
                    [each[at : at + self.sampler.batch] for at in rows] for each in (data, images)
                )
                figures[self._kind] = inception_distance(self._kind, theirs, ours)
            figures["held_out_images"] = float(len(data) if self.shown.held_out else 0)
        clip, captions = self.config.train.snapshot_clip, self.shown.captions
        if self._decodes and clip:
            figures["clip_score"] = float(np.mean(clip_scores(images, captions, clip, self.sampler.batch)))
        return Evaluation(images, captions, figures)


def evaluator_for(network: Network, source: Source) -> ShapesEvaluator | EncodingsEvaluator | None:
    """The evaluator for this data. None for an unknown data set."""
    if network.config.dataset.name == "shapes":
        return ShapesEvaluator(network)
    return EncodingsEvaluator(network, source) if isinstance(source, EncodingSource) else None
