"""Configurations: what is read, what is refused and how it is said, and the published sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.common.settings import to_dict
from tpulab_recipes.ddpm.config import Config, config_from
from tpulab_recipes.ddpm.model import Network, count_parameters
from tpulab_recipes.ddpm.presets import LAION256, LAION512_LARGE, PRESETS, SMALL, load_config


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_survives_being_written_and_read(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(to_dict(PRESETS[name])))
    assert load_config(file) == PRESETS[name] == load_config(name)


@pytest.mark.parametrize(
    ("values", "where", "what"),
    [
        ({"train": {"batchsize": 3}}, "train.batchsize", "'batch_size'"),
        ({"model": {"args": {"ch_mul": [1]}}}, "model.args.ch_mul", "'ch_mult'"),
        ({"trian": {}}, "trian", "'train'"),
        ({"model": {"mean_type": "velocity"}}, "model.mean_type", "eps, x, v"),
        ({"train": {"batch_size": "many"}}, "train.batch_size", "must be int"),
        ({"train": {"batch_size": True}}, "train.batch_size", "must be int"),
        ({"in_dimensions": [32, 32]}, "in_dimensions", "3 entries"),
        ({"train": 5}, "train", "group of keys"),
        ({"train": {"ema_decay": 1.5}}, "train.ema_decay", "[0, 1)"),
        ({"model": {"args": {"attn_resolutions": [7]}}}, "model.args.attn_resolutions", "none of"),
        ({"dataset": {"held_out": 0.1}}, "dataset.held_out", "'held_out_"),
        ({"dataset": {"held_out_share": 1}}, "dataset.held_out_share", "[0, 1)"),
        ({"distill": {"end_num_steps": 5}}, "distill.end_num_steps", "halved"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_their_place(
    values: dict[str, object], where: str, what: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from(values)
    assert caught.value.path == where
    assert what in str(caught.value)


def test_latents_of_the_wrong_size_for_the_images_are_refused() -> None:
    with pytest.raises(ConfigError, match="latents of 32 x 32"):
        config_from({"in_dimensions": [64, 64, 4]}, LAION256)


def test_files_of_each_kind_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('preset = "small"\n[train]\nbatch_size = 16\n')
    (tmp_path / "a.json").write_text('{"preset": "small", "train": {"batch_size": 16}}')
    (tmp_path / "a.py").write_text(
        "def get_config():\n    return {'preset': 'small', 'train': {'batch_size': 16}}\n"
    )
    wanted = replace(SMALL, train=replace(SMALL.train, batch_size=16))
    assert all(load_config(tmp_path / name) == wanted for name in ("a.toml", "a.json", "a.py"))


@pytest.mark.parametrize(
    ("name", "text", "output"),
    [
        ("none.toml", None, "no preset of that name"),
        ("broken.json", "{", "cannot be read"),
        ("empty.py", "", "has no function get_config"),
        ("broken.py", "def get_config(:", "broken.py cannot be read: SyntaxError"),
        ("key.py", "def get_config():\n    return {}['a']", "key.py cannot be read: KeyError"),
        ("x.yaml", "", "must end in"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, name: str, text: str | None, output: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=output):
        load_config(tmp_path / name)


def test_single_keys_are_set_by_their_path() -> None:
    config = SMALL.but({"train.batch_size": 32, "model.args.ch_mult": [1, 2], "sampler": "ancestral"})
    assert (config.train.batch_size, config.model.args.ch_mult, config.sampler) == (32, (1, 2), "ancestral")
    several = SMALL.but({"model.args.ch": 64, "model": {"args": {"head_dim": 64}}, "model.mean_type": "v"})
    assert (several.model.args.ch, several.model.args.head_dim, several.model.mean_type) == (64, 64, "v")
    with pytest.raises(ConfigError, match=r"^train\.batchsize: .*'batch_size'"):
        SMALL.but({"train.batchsize": 32})


def test_the_published_networks_have_the_published_sizes() -> None:
    """136.9 M and 952.7 M; nothing is allocated."""
    assert count_parameters(Network(LAION256).shapes) / 1e6 == pytest.approx(136.9, abs=0.05)
    assert count_parameters(Network(LAION512_LARGE).shapes) / 1e6 == pytest.approx(952.7, abs=0.05)


def test_the_gate_of_the_feed_forward_layers_obeys_its_switch(tiny: Config) -> None:
    args = replace(tiny.model.args, use_glu=False)
    plain = replace(tiny, model=replace(tiny.model, args=args))
    with_gate, without = (Network(config).shapes for config in (tiny, plain))
    inner = with_gate["middle_attention"]["ff"]["inner"]["kernel"].shape
    assert without["middle_attention"]["ff"]["inner"]["kernel"].shape == (inner[0], inner[1] // 2)
