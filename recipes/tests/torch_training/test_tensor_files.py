"""Files of tensors from anywhere: an unusable one is named with its kind, and none of its code runs."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import save_file  # noqa: E402
from tpulab_recipes.audio.codec import load_codec, tiny_codec  # noqa: E402
from tpulab_recipes.audio.mel import MelSettings  # noqa: E402
from tpulab_recipes.audio.vocoders import load_vocoder  # noqa: E402
from tpulab_recipes.common.errors import CheckpointError, ConfigError  # noqa: E402
from tpulab_recipes.dia.model import load_model, load_processor, tiny_processor  # noqa: E402
from tpulab_recipes.english_tts.checkpoint_manager import load_final_model  # noqa: E402
from tpulab_recipes.gpt_sovits.checkpoints import read_container, start_models  # noqa: E402
from tpulab_recipes.gpt_sovits.config import Config  # noqa: E402
from tpulab_recipes.gpt_sovits.s1 import load_first_stage  # noqa: E402
from tpulab_recipes.intents.config import LESSON as SMALL  # noqa: E402
from tpulab_recipes.intents.trainer import make_model  # noqa: E402
from tpulab_recipes.torch_training import load_checkpoint  # noqa: E402
from tpulab_recipes.torch_training.tensor_files import read_tensors  # noqa: E402
from transformers import BertConfig, SpeechT5HifiGanConfig  # noqa: E402


class _Trap:
    """Unpickling it creates the file `ran`."""

    def __init__(self, ran: Path) -> None:
        self.ran = ran

    def __reduce__(self) -> Any:
        return open, (str(self.ran), "w")


def _traps(ran: Path) -> dict[str, bytes]:
    """A pickle that runs code, in each format that `torch.load` reads."""
    held = {"weight": _Trap(ran), "model": _Trap(ran)}
    new, old = io.BytesIO(), io.BytesIO()
    torch.save(held, new)
    torch.save(held, old, _use_new_zipfile_serialization=False)
    plain = {
        f"plain {protocol}": pickle.dumps(held, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    }
    return {"zip": new.getvalue(), "old": old.getvalue(), **plain}


def _dia(file: Path) -> Any:
    (file.parent / "pytorch_model.bin").write_bytes(file.read_bytes())
    return load_model(str(file.parent), "0626")


def _voice(file: Path) -> Any:
    (file.parent / "phonemes.json").write_text('{"symbols": ["a"]}')
    (file.parent / "config.json").write_text("{}")
    (file.parent / "model.safetensors").write_bytes(file.read_bytes())
    return load_final_model(file.parent)


def _run(file: Path) -> Any:
    (file.parent / "step-00000001.pt").write_bytes(file.read_bytes())
    return load_checkpoint(file.parent)


def _of_transformers(config: Any, load: Callable[[str], Any], file: Path) -> Any:
    """`load` of a folder with this configuration and the file as its weights."""
    config.save_pretrained(file.parent)
    # Pickles and pages have the names of the files that they pretend to be.
    name = "model.safetensors" if file.suffix == ".safetensors" else "pytorch_model.bin"
    file.rename(file.parent / name)
    return load(str(file.parent))


def _codec(file: Path) -> Any:
    return _of_transformers(tiny_codec().model.config, load_codec, file)


def _codec_of_an_export(file: Path) -> Any:
    folder = file.parent / "audio_tokenizer"
    tiny_processor().save_pretrained(file.parent)
    folder.mkdir(exist_ok=True)
    tiny_codec().model.config.save_pretrained(folder)
    file.rename(folder / ("model.safetensors" if file.suffix == ".safetensors" else "pytorch_model.bin"))
    return load_processor(str(file.parent))


def _vocoder(file: Path) -> Any:
    settings = MelSettings(16_000, 1024, 256, 1024)
    return _of_transformers(SpeechT5HifiGanConfig(), lambda place: load_vocoder(place, settings), file)


def _classifier(file: Path) -> Any:
    config = BertConfig(vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    return _of_transformers(
        config, lambda place: make_model(SMALL.but(model=place), ("yes", "no"), 100, 8), file
    )


OF_TRANSFORMERS = [_codec, _codec_of_an_export, _vocoder, _classifier]


@pytest.mark.parametrize(
    "reader", [read_tensors, read_container, load_first_stage, _dia, _voice, _run, *OF_TRANSFORMERS]
)
def test_no_reader_runs_code_of_a_file_in_any_format(reader: Callable[[Path], Any], tmp_path: Path) -> None:
    """Case D10: torch's old format ran the code of a downloaded voice."""
    for name, data in _traps(tmp_path / "ran").items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "voice.pth").write_bytes(data)
        with pytest.raises(CheckpointError) as refused:
            reader(folder / "voice.pth")
        assert not (tmp_path / "ran").exists(), name
        assert str(refused.value).startswith(str(folder)), name
        assert "weights_only" not in str(refused.value)


def test_files_of_another_kind_are_named_correctly(tmp_path: Path) -> None:
    """Case D10."""
    whole = tmp_path / "whole.pth"
    torch.save({"weight": {"a": torch.zeros(1000)}}, whole)
    data = whole.read_bytes()
    for name, content, output in (
        (
            "pointer.pth",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:11\nsize 3\n",
            "Git LFS pointer",
        ),
        ("page.pth", b"\n<!DOCTYPE html><title>404</title>", "HTML page"),
        ("empty.pth", b"", "is empty"),
        ("half.pth", data[: len(data) // 2], "cut off"),
        ("end.pth", data[:-30], "cut off"),
        ("zeros.pth", bytes(5000), "no file of tensors|cut off or damaged"),
        ("text.pth", b"this is no checkpoint\n", "no file of tensors"),
        ("v2pro.pth", b"05" + bytes(100), "is a v2Pro voice; v1 and v2 can be read"),
        ("v4.pth", b"04" + bytes(100), "is a v4"),
        ("number.pth", pickle.dumps(7, 2), "neither `weight` nor `model`|no file of tensors"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=output) as refused:
            read_container(tmp_path / name)
        assert str(refused.value).startswith(str(tmp_path / name))
        assert "\n" not in str(refused.value)
    with pytest.raises(CheckpointError, match=r"gone\.pth cannot be read as a checkpoint: No such file"):
        read_container(tmp_path / "gone.pth")


@pytest.mark.parametrize("reader", OF_TRANSFORMERS)
def test_files_that_are_no_weights_for_transformers_are_named(
    reader: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Siblings of case D10: they ended with a traceback of safetensors."""
    save_file({"a": torch.arange(100.0)}, tmp_path / "whole.safetensors")
    whole = (tmp_path / "whole.safetensors").read_bytes()
    for name, content, output in (
        ("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer"),
        ("page", b"<!DOCTYPE html><title>404</title>", "HTML page"),
        ("empty", b"", "is empty"),
        ("torn", whole[:-20], "cut off, with"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.safetensors").write_bytes(content)
        with pytest.raises(
            CheckpointError, match=rf"{name}\S*/model\.safetensors cannot be read .*{output}"
        ) as no:
            reader(tmp_path / name / "x.safetensors")
        assert "\n" not in str(no.value)


def test_an_unreadable_configuration_for_transformers_is_named(tmp_path: Path) -> None:
    tiny_codec().model.save_pretrained(tmp_path)
    for written, output in (
        ("[1]", r"codec: \S+config\.json must hold a JSON object"),
        ('{"model_type": "dac", ', r"codec: \S+config\.json cannot be read as JSON"),
        ('{"model_type": "bert", "hidden_size": "x"}', r"codec: '\S+' cannot be loaded \(.*\)\.$"),
    ):
        (tmp_path / "config.json").write_text(written)
        with pytest.raises(ConfigError, match=output):
            load_codec(str(tmp_path))


def test_safetensors_that_are_cut_off_or_no_safetensors_are_named(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.arange(100.0)}, file)
    whole = file.read_bytes()
    assert torch.equal(read_tensors(file)["a"], torch.arange(100.0))
    for data, output in (
        (whole[:5], "cut off"),
        (whole[:40], "cut off"),
        (whole[:-1], "cut off, with"),
        (b"\x08\0\0\0\0\0\0\0notjson!", "its header is not JSON"),
    ):
        file.write_bytes(data)
        with pytest.raises(CheckpointError, match=output):
            read_tensors(file)
        with pytest.raises(CheckpointError, match=output):
            load_model(str(tmp_path), "0626")


def test_a_broken_configuration_and_a_lost_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "dia", ')
    with pytest.raises(ConfigError, match=r"config\.json cannot be read as JSON"):
        load_model(str(tmp_path))
    with pytest.raises(ConfigError, match=r"nowhere' is neither a folder here"):
        load_model(str(tmp_path / "nowhere"))


def test_a_voice_of_another_version_is_named_by_its_version(tmp_path: Path) -> None:
    embedding = {"enc_p.text_embedding.weight": torch.zeros(322, 4)}
    torch.save({"weight": embedding}, tmp_path / "v1.pth")
    with pytest.raises(CheckpointError, match=r"v1\.pth is a v1 voice and the settings are v2's"):
        start_models(Config(), str(tmp_path / "v1.pth"))
