"""The evaluator: one program for the features of the data and of the samples, whatever their number."""

from __future__ import annotations

import numpy as np
import pytest
from tpulab_recipes.ddpm import frechet
from tpulab_recipes.ddpm.config import Config
from tpulab_recipes.ddpm.data.shapes import draw_shapes
from tpulab_recipes.ddpm.data.small_encoders import PatchPca
from tpulab_recipes.ddpm.evaluator import ShapesEvaluator
from tpulab_recipes.ddpm.frechet import frechet_distance, image_features
from tpulab_recipes.ddpm.model import Network


@pytest.fixture
def _no_programs() -> None:
    frechet._features.clear_cache()


@pytest.mark.usefixtures("_no_programs")
def test_data_and_samples_share_one_program_and_the_figure_is_that_of_small_batches(tiny: Config) -> None:
    network = Network(tiny)
    evaluate = ShapesEvaluator(network, count=40, batch=16, steps=2)
    found = evaluate(network.init(0))
    assert frechet.compilations() == 1
    pca = PatchPca.shipped()
    reference = pca.decode(pca.encode(draw_shapes(512, seed=tiny.seed + 2_000_003).images))
    expected = frechet_distance(image_features(reference, batch=64), image_features(found.images, batch=8))
    # The images that fill a batch up do not count.
    assert found.images.shape[0] == 40
    assert found.figures["frechet"] == pytest.approx(expected, rel=1e-4)
    # Other batches are other programs: the count above is one that can fail.
    assert frechet.compilations() == 3


@pytest.mark.usefixtures("_no_programs")
def test_any_number_of_images_takes_the_same_program() -> None:
    images = draw_shapes(frechet.BATCH + 9, seed=3).images
    all_at_once = image_features(images)
    assert all_at_once.shape == (len(images), frechet.FEATURES)
    for count in (1, 9, frechet.BATCH, len(images)):
        np.testing.assert_allclose(image_features(images[-count:]), all_at_once[-count:], atol=1e-5)
    assert frechet.compilations() == 1
