"""Utterances and their intents with Hugging Face's `datasets`, and batches of token ids in one fixed
shape."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.common.errors import DataError
from tpulab_recipes.common.inputs import decoded

SMALL_DATA = Path(__file__).with_name("data")
Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Utterances:
    """`train` and `test` are `datasets.Dataset` with the columns text and label; `names` says what a label
    means."""

    train: Any
    test: Any
    names: tuple[str, ...]


def load_utterances(source: str = "") -> Utterances:
    """Sentences with intents.

    Args:
        source: empty for the definitions of WordNet that come with the recipe (`wordnet.py`); a folder with
            `train.csv` and `test.csv` (columns text and category, as banking77 is published); or the name of
            a data set on the Hugging Face hub, such as `mteb/banking77` (columns text and label).

    Raises:
        DataError: neither such a folder nor such a data set can be reached.
    """
    from datasets import DatasetDict, disable_progress_bars, load_dataset

    folder = Path(source) if source else SMALL_DATA
    if folder.is_dir():
        missing = [name for name in ("train.csv", "test.csv") if not (folder / name).is_file()]
        if missing:
            raise DataError(
                f"{folder} has no {' and no '.join(missing)}; banking77's two CSV files are expected there."
            )
        # Reading two small files needs no progress bars; a download below keeps them.
        disable_progress_bars()
        loaded = DatasetDict({part: _read_csv(folder / f"{part}.csv") for part in ("train", "test")})
    else:
        try:
            loaded = load_dataset(source)
        except Exception as error:
            raise DataError(
                f'"{source}" is no folder here, and the hub did not give a data set of that name '
                f"({type(error).__name__}). Without a network put banking77's train.csv and test.csv into a "
                "folder and name it; leave the setting empty for the small set that comes with the lesson."
            ) from error
    return _with_labels(loaded, source or str(folder))


def _read_csv(file: Path) -> Any:
    """A table whose text is in Unicode. Raises `DataError` for any other, and where a cell is empty."""
    from datasets import load_dataset

    data = file.read_bytes()
    decoded(data, str(file))
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        table = load_dataset("csv", data_files=str(file), split="train", encoding=encoding)
    except Exception as error:  # Of pandas, below three layers of datasets.
        cause = error.__cause__ or error
        raise DataError(f"{file} cannot be read as a table: {str(cause).splitlines()[0]}") from error
    for column in set(table.column_names) & {"text", "category", "label_text", "label"}:
        empty = next((n for n, value in enumerate(table[column], 2) if value is None or value == ""), None)
        if empty is not None:
            raise DataError(f"{file}, row {empty}: its {column} is empty.")
    return table


def _with_labels(loaded: Any, source: str) -> Utterances:
    columns = set(loaded["train"].column_names)
    name_column = next((name for name in ("category", "label_text") if name in columns), None)
    if "text" not in columns or (name_column is None and "label" not in columns):
        raise DataError(
            f"{source} has the columns {sorted(columns)}; text and category (or label) are needed."
        )
    if name_column is not None:
        names = tuple(sorted(set(loaded["train"][name_column])))
        unknown = set(loaded["test"][name_column]) - set(names)
        if unknown:
            raise DataError(
                f"The test of {source} has intents that the training has not: {sorted(unknown)[:3]}."
            )
        number = {name: index for index, name in enumerate(names)}
        loaded = loaded.map(lambda row: {"label": number[row[name_column]]}, load_from_cache_file=False)
    else:
        feature = loaded["train"].features["label"]
        names = tuple(
            getattr(feature, "names", None) or (str(n) for n in sorted(set(loaded["train"]["label"])))
        )
    if len(names) < 2:
        raise DataError(f"{source} has one intent, {', '.join(names)}; to tell intents apart takes two.")
    return Utterances(loaded["train"], loaded["test"], names)


def choose_length(token_counts: list[int], *, share: float = 0.99, multiple: int = 8, most: int = 512) -> int:
    """To how many tokens sentences are padded or cut: so that `share` of them fit whole, rounded up to
    `multiple`.

    A fixed length makes one program. Padding every sentence to BERT's 512 would make it dozens of times
    slower.
    """
    if not token_counts:
        raise DataError("There are no sentences to choose a length from.")
    # The shortest length that at least this share has; a hair off for shares that are not exact in binary.
    fits = sorted(token_counts)[math.ceil(share * len(token_counts) - 1e-9) - 1]
    return min(-(-fits // multiple) * multiple, most)


@dataclass(frozen=True)
class Encoded:
    """`ids`, `mask`: int32 [sentence, length]; `labels`: int32 [sentence]."""

    ids: NDArray[np.int32]
    mask: NDArray[np.int32]
    labels: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.labels)


def encode(dataset: Any, tokenizer: Any, length: int) -> Encoded:
    """Token ids of every sentence, padded or cut to `length`."""
    tokens = tokenizer(list(dataset["text"]), padding="max_length", truncation=True, max_length=length)
    return Encoded(
        np.asarray(tokens["input_ids"], np.int32),
        np.asarray(tokens["attention_mask"], np.int32),
        np.asarray(dataset["label"], np.int32),
    )


def train_batches(data: Encoded, batch_size: int, seed: int, epoch: int, skip: int = 0) -> Iterator[Batch]:
    """Shuffled batches of exactly `batch_size`; leftover rows belong to another epoch. A training that
    resumes within the epoch skips the batches that it has learned from."""
    order = np.random.default_rng((seed, epoch)).permutation(len(data))
    for start in range(skip * batch_size, len(data) - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield {
            "input_ids": data.ids[chosen],
            "attention_mask": data.mask[chosen],
            "labels": data.labels[chosen],
        }


def eval_batches(data: Encoded, batch_size: int) -> Iterator[Batch]:
    """Every sentence once, in order; the last batch repeats its last row, which callers drop again."""
    for start in range(0, len(data), batch_size):
        chosen = np.minimum(np.arange(start, start + batch_size), len(data) - 1)
        yield {
            "input_ids": data.ids[chosen],
            "attention_mask": data.mask[chosen],
            "labels": data.labels[chosen],
        }
