"""The evaluator: one program for the features of the data and of the samples, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from tpulab_recipes.common.errors import RecipeError
from tpulab_recipes.common.steering import Hook, PlainRun
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.pipeline import ShapesSource
from tpulab_recipes.ddpm.data.shapes import draw_shapes
from tpulab_recipes.ddpm.data.small_encoders import PatchPca
from tpulab_recipes.ddpm.model import Network
from tpulab_recipes.ddpm.training.evaluator import ShapesEvaluator
from tpulab_recipes.ddpm.training.train_step import default_hyperparameters
from tpulab_recipes.ddpm.training.trainer import Trainer
from tpulab_recipes.images import frechet
from tpulab_recipes.images.frechet import frechet_distance, image_features


@pytest.fixture
def _no_programs() -> None:
    frechet._features.clear_cache()


@pytest.mark.usefixtures("_no_programs")
def test_data_and_samples_share_one_program_and_the_value_matches_small_batches(shallow: Config) -> None:
    network = Network(shallow)
    evaluate = ShapesEvaluator(network, count=40, batch=16, steps=2)
    found = evaluate(network.init(0))
    assert frechet.compilations() == 1
    pca = PatchPca.shipped()
    reference = pca.decode(pca.encode(draw_shapes(512, seed=shallow.seed + 2_000_003).images))
    expected = frechet_distance(image_features(reference, batch=64), image_features(found.images, batch=8))
    # The images that fill a batch up do not count.
    assert found.images.shape[0] == 40
    assert found.figures["frechet"] == pytest.approx(expected, rel=1e-4)
    # Other batches are other programs: the count above is one that can fail.
    assert frechet.compilations() == 3


def test_a_training_without_an_evaluator_reports_it_on_request(shallow: Config) -> None:
    requested: list[Hook] = []

    class Asking(PlainRun):
        def on(self, *, checkpoint: Hook, evaluate: Hook, sample: Hook) -> None:  # noqa: ARG002
            requested.extend([evaluate, sample])

        def steps(self, batches: Iterable[Any], total: int) -> Iterator[Any]:  # noqa: ARG002
            return iter(())

    with Trainer(shallow, ShapesSource(shallow, count=64)) as trainer:
        trainer.train(1, run=Asking({}))
    assert len(requested) == 2
    for hook in requested:
        with pytest.raises(RecipeError, match="without an evaluator"):
            hook()


def test_an_evaluation_is_logged_to_the_page_too(shallow: Config) -> None:
    logged: list[dict[str, Any]] = []

    class Recording(PlainRun):
        def log(self, **values: Any) -> None:
            logged.append(values)

    network = Network(shallow)
    config = shallow.but({"train.snapshot_freq": 2})
    evaluate = ShapesEvaluator(network, count=8, batch=8, steps=1)
    with Trainer(config, ShapesSource(config, count=64), evaluate=evaluate) as trainer:
        trainer.train(2, run=Recording(default_hyperparameters(config)))
    assert [set(values) for values in logged] == [{"loss", "gnorm"}] * 2 + [{"frechet", "caption_accuracy"}]


@pytest.mark.usefixtures("_no_programs")
def test_any_number_of_images_takes_the_same_program() -> None:
    images = draw_shapes(frechet.BATCH + 9, seed=3).images
    all_at_once = image_features(images)
    assert all_at_once.shape == (len(images), frechet.FEATURES)
    for count in (1, 9, frechet.BATCH, len(images)):
        np.testing.assert_allclose(image_features(images[-count:]), all_at_once[-count:], atol=1e-5)
    assert frechet.compilations() == 1
