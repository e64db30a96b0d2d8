"""A trainer of the tiny voice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from english_tts.tiny_voice import STATISTICS, TINY, made_up


@pytest.fixture(scope="session")
def host() -> Any:
    from tpulab_recipes.runtime.selection import make

    return make("cpu", "cpu")


@pytest.fixture
def new_trainer(host: Any, tmp_path: Path) -> Callable[..., Any]:
    def new(**options: Any) -> Any:
        import torch
        from tpulab_recipes.english_tts.trainer import KokoroTrainer

        torch.set_num_threads(1)
        kept = {"amp", "run"} & options.keys()
        extra = {name: options.pop(name) for name in kept}
        backend = options.pop("backend", host)
        config = TINY.but(**{"output_dir": str(tmp_path), **options})
        train, held_out = [made_up(each) for each in range(10)], [made_up(each) for each in range(10, 12)]
        return KokoroTrainer(config, backend, train, held_out, STATISTICS, **extra)

    return new
