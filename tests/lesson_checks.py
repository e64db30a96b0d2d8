"""The expected output of each cell of the getting-started notebook: one check per cell, against NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .lesson import ExecutedLesson
from .lesson_oracle import convolve, cross_entropy, digits, draws, lenet, load_params

SEED, BATCH_SIZE, EPOCHS, LEARNING_RATE = 0, 64, 10, 0.1

CHECKS: dict[str, Callable[[ExecutedLesson], None]] = {}

# Cells that only define things.
SILENT = {"parameters", "train-step", "full-batches"}


def check(cell_id: str) -> Callable[[Callable[[ExecutedLesson], None]], Callable[[ExecutedLesson], None]]:
    def register(function: Callable[[ExecutedLesson], None]) -> Callable[[ExecutedLesson], None]:
        CHECKS[cell_id] = function
        return function

    return register


@check("devices")
def _devices(lesson: ExecutedLesson) -> None:
    first, *rest = lesson.lines("devices")
    assert re.fullmatch(r"8 XLA devices, JAX \d+\.\d+\.\d+", first)
    assert rest == [f"  device {n}: cpu (cpu)" for n in range(8)]
    assert lesson.probe["devices"] == 8


@check("tensors")
def _tensors(lesson: ExecutedLesson) -> None:
    assert lesson.lines("tensors") == [
        *str(np.ones((3, 3), np.float32)).splitlines(),
        "shape (3, 3) | dtype float32 | on {CpuDevice(id=0)}",
        "a copy on {CpuDevice(id=7)}",
    ]


@check("arithmetic")
def _arithmetic(lesson: ExecutedLesson) -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    total, product, error = lesson.lines("arithmetic")
    assert total == f"a + b = {(a + 10 * a).tolist()}"
    assert product == f"a * b = {(a * 10 * a).tolist()}"
    assert error.startswith("On two devices: Received incompatible devices")


@check("matmul")
def _matmul(lesson: ExecutedLesson) -> None:
    product = np.arange(6.0).reshape(2, 3) @ np.arange(12.0).reshape(3, 4)
    assert lesson.lines("matmul") == [*str(product).splitlines(), "(2, 4)"]


@check("conv")
def _conv(lesson: ExecutedLesson) -> None:
    drawn = draws(SEED, BATCH_SIZE)
    expected = convolve(drawn.signals, drawn.filters)
    shape, by_xla, by_hand = lesson.lines("conv")
    assert shape == f"shape {expected.shape}" == "shape (20, 33, 48)"
    for line in (by_xla, by_hand):
        assert abs(float(line.split()[-1]) - expected[7, 5, 10]) < 2e-4


@check("copies")
def _copies(lesson: ExecutedLesson) -> None:
    types, timing, element = lesson.lines("copies")
    assert types == ("on the host float64 | on the device float32 | back float32 [0.0, 0.5, 1.0, 1.5, 2.0]")
    assert re.fullmatch(r"Python went on after [\d.]+ ms, the result was ready after [\d.]+ ms", timing)
    assert element == "every element is 1024.0"


@check("linear")
def _linear(lesson: ExecutedLesson) -> None:
    x = np.arange(15.0, dtype=np.float32).reshape(3, 5)
    weight = np.full((5, 2), 0.5, np.float32)
    expected = "\n".join(
        (
            f"forward\n {x @ weight}",
            f"gradient of the weight\n {x.T @ np.ones((3, 2), np.float32)}",
            f"gradient of the bias {np.full(2, 3.0, np.float32)}",
        )
    )
    assert lesson.text("linear").strip() == expected


@check("lenet")
def _lenet(lesson: ExecutedLesson) -> None:
    count, logits = lesson.text("lenet").split("\n", 1)
    sizes = (6 * 9 + 6, 16 * 6 * 9 + 16, 576 * 120 + 120, 120 * 84 + 84, 84 * 10 + 10)
    assert count == f"parameters: {sum(sizes)}"
    expected = lenet(load_params(lesson.arrays, "initial"), draws(SEED, BATCH_SIZE).one_image)
    shape, numbers = re.fullmatch(r"logits (\(.*?\)) \[([^\]]*)\]\s*", logits).groups()  # type: ignore[union-attr]
    assert shape == "(1, 10)"
    np.testing.assert_allclose([float(n) for n in numbers.split()], expected[0], atol=2e-3)


@check("digits")
def _digits(lesson: ExecutedLesson) -> None:
    assert lesson.lines("digits") == ["1437 images to learn from, 360 to judge by, each (1, 32, 32)"]
    assert "image/png" in lesson.mime_types("digits")


@check("first-epoch")
def _first_epoch(lesson: ExecutedLesson) -> None:
    found = re.findall(r"step +(\d+): (\d+) images, +[\d.]+ ms, loss ([\d.]+)", lesson.text("first-epoch"))
    assert [(int(step), int(count)) for step, count, _ in found] == [(0, 64), (1, 64), (22, 1437 - 22 * 64)]
    data = digits(SEED)
    batch = draws(SEED, BATCH_SIZE).first_batch
    logits = lenet(load_params(lesson.arrays, "initial"), data.images[batch])
    assert abs(float(found[0][2]) - cross_entropy(logits, data.labels[batch])) < 2e-3


@check("slider")
def _slider(lesson: ExecutedLesson) -> None:
    assert "application/vnd.jupyter.widget-view+json" in lesson.mime_types("slider")
    assert lesson.widget_state("FloatLogSliderModel")["description"] == "learning rate"


@check("slider-set")
def _slider_set(lesson: ExecutedLesson) -> None:
    assert lesson.lines("slider-set") == ["The slider now stands at 0.050"]
    # The display of a front end: the kernel sent the new value, and the sentence that depends on it.
    assert lesson.widget_state("FloatLogSliderModel")["value"] == LEARNING_RATE / 2
    assert lesson.widget_state("LabelModel")["value"] == "Python sees a learning rate of 0.050"


@check("training")
def _training(lesson: ExecutedLesson) -> None:
    found = re.findall(r"^epoch (\d+): mean loss ([\d.]+)$", lesson.text("training"), re.MULTILINE)
    assert [int(epoch) for epoch, _ in found] == list(range(1, EPOCHS + 1))
    losses = [float(loss) for _, loss in found]
    assert losses[-1] < losses[0] / 3


@check("accuracy")
def _accuracy(lesson: ExecutedLesson) -> None:
    (line,) = lesson.lines("accuracy")
    printed = float(re.fullmatch(r"([\d.]+)% of 360 digits .* are read correctly", line)[1])  # type: ignore[index]
    data = digits(SEED)
    predicted = lenet(load_params(lesson.arrays, "trained"), data.images[data.test]).argmax(axis=1)
    accuracy = float((predicted == data.labels[data.test]).mean())
    assert accuracy > 0.9
    # One image may be on the boundary between two digits in float32.
    assert abs(printed / 100 - accuracy) < 1.5 / 360


@check("figure")
def _figure(lesson: ExecutedLesson) -> None:
    assert "image/png" in lesson.mime_types("figure")
