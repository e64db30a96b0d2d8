"""AlexNet and the preparation of its images, against torchvision and torch's own operators."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from fits_xla import forbid_operators, trace_full_graph  # noqa: E402
from tpulab_recipes.fashion_mnist.alexnet import (  # noqa: E402
    IMAGENET_DEVIATION,
    IMAGENET_MEAN,
    AlexNet,
    enlarging_matrix,
    prepare_images,
)
from tpulab_recipes.fashion_mnist.config import FULL_SIZE, Config  # noqa: E402


@pytest.mark.parametrize("size", [64, 224])
def test_equals_torchvision_with_the_same_weights(size: int) -> None:
    torch.manual_seed(0)
    theirs = torchvision.models.AlexNet(num_classes=10).eval()
    ours = AlexNet(10).eval()
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        assert torch.allclose(ours(images), theirs(images), atol=1e-6)


def test_the_published_network_has_57_million_parameters() -> None:
    assert sum(p.numel() for p in AlexNet(10).parameters()) == 57_044_810


def test_sizes_in_between_are_refused_with_the_possible_ones() -> None:
    with pytest.raises(ValueError, match="image_size of 64 or 224"):
        AlexNet(10, width=0.25)(torch.zeros(1, 3, 130, 130))


@pytest.mark.parametrize("size", [28, 64, 63, 224])
def test_the_enlargement_equals_torchs_bilinear_one(size: int) -> None:
    images = torch.rand(3, 1, 28, 28)
    matrix = torch.from_numpy(enlarging_matrix(size))
    ours = matrix @ images[:, 0] @ matrix.T
    theirs = torch.nn.functional.interpolate(images, size=(size, size), mode="bilinear", align_corners=False)
    assert torch.allclose(ours, theirs[:, 0], atol=1e-6)


def test_images_are_prepared_as_torchvision_s_transforms_do() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 28, 28)).astype(np.uint8)
    channels = lambda values: torch.tensor(values).reshape(3, 1, 1)  # noqa: E731
    ours = prepare_images(
        torch.from_numpy(pixels),
        torch.from_numpy(enlarging_matrix(64)),
        channels(IMAGENET_MEAN),
        channels(IMAGENET_DEVIATION),
    )
    from torchvision.transforms import v2

    transform = v2.Compose(
        [
            v2.Resize((64, 64), antialias=False),
            v2.Lambda(lambda x: x.expand(-1, 3, -1, -1)),
            v2.Normalize(IMAGENET_MEAN, IMAGENET_DEVIATION),
        ]
    )
    theirs = transform(torch.from_numpy(pixels)[:, None].float() / 255)
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_step_is_one_graph_without_data_dependent_operators() -> None:
    model = AlexNet(10, width=0.125)
    images = torch.randn(2, 3, 64, 64)
    assert trace_full_graph(model, images).shape == (2, 10)
    with forbid_operators():
        torch.nn.functional.cross_entropy(model(images), torch.tensor([1, 2])).backward()


def test_settings_that_make_no_sense_are_refused() -> None:
    assert (FULL_SIZE.image_size, FULL_SIZE.width) == (224, 1.0)
    for wrong in (
        {"image_size": 32},
        {"width": 0.0},
        {"width": 1.5},
        {"batch_size": 0},
        {"dropout": 1.0},
        {"precision": "int4"},
    ):
        with pytest.raises(ValueError, match=r"."):
            Config(**wrong)
