"""transformers' VITS modules with our weights compute the same, bit for bit."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers.models.vits")

from tpulab_recipes.audio.hifigan import fold_weight_norm  # noqa: E402
from tpulab_recipes.gpt_sovits.models import (  # noqa: E402
    DurationPredictor,
    Generator,
    PosteriorEncoder,
    ResidualCouplingBlock,
    StochasticDurationPredictor,
)
from transformers import VitsConfig  # noqa: E402
from transformers.models.vits import modeling_vits as vits  # noqa: E402

CONFIG = VitsConfig(
    hidden_size=16,
    flow_size=8,
    spectrogram_bins=20,
    speaker_embedding_size=12,
    posterior_encoder_num_wavenet_layers=4,
    prior_encoder_num_wavenet_layers=4,
    upsample_initial_channel=16,
    upsample_rates=[4, 2],
    upsample_kernel_sizes=[8, 4],
    resblock_kernel_sizes=[3, 5],
    resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5]],
    leaky_relu_slope=0.1,
    duration_predictor_filter_channels=16,
    duration_predictor_dropout=0.0,
)
#: Their names of our modules.
NAMES = (
    (r"^pre\.", "conv_pre."),
    (r"^proj\.", "conv_proj."),
    (r"^enc\.", "wavenet."),
    (r"\.pre\.", ".conv_pre."),
    (r"\.post\.", ".conv_post."),
    (r"\.enc\.", ".wavenet."),
    (r"^ups\.", "upsampler."),
)


def _random(module: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        for each in module.parameters():
            each.copy_(torch.randn_like(each) * 0.3)
    return module.eval()


def _same_weights(ours: Any, theirs: Any) -> None:
    """Both folded, so that both compute with the same numbers."""
    state = fold_weight_norm(ours).state_dict()
    for module in theirs.modules():
        for name in list(getattr(module, "parametrizations", {})):
            torch.nn.utils.parametrize.remove_parametrizations(module, name)
    renamed = {}
    for key, value in state.items():
        for pattern, name in NAMES:
            key = re.sub(pattern, name, key)
        key = re.sub(r"^flows\.(\d+)", lambda found: f"flows.{int(found[1]) // 2}", key)
        renamed[key] = value
    theirs.load_state_dict(renamed, strict=True)
    theirs.eval()


def test_flow_posterior_generator_and_durations() -> None:
    torch.manual_seed(1)
    mask = torch.ones(2, 1, 13)
    mask[1, :, 9:] = 0
    g = torch.randn(2, 12, 1)
    with torch.no_grad():
        flow = _random(ResidualCouplingBlock(8, 16, 5, 1, 4, gin_channels=12))
        other = vits.VitsResidualCouplingBlock(CONFIG)
        _same_weights(flow, other)
        x = torch.randn(2, 8, 13)
        for reverse in (False, True):
            assert torch.equal(flow(x, mask, g, reverse=reverse), other(x, mask, g, reverse=reverse))

        posterior = _random(PosteriorEncoder(20, 8, 16, 5, 1, 4, 12))
        other = vits.VitsPosteriorEncoder(CONFIG)
        _same_weights(posterior, other)
        spec = torch.randn(2, 20, 13)
        _, mean, logs, _ = posterior(spec, torch.tensor([13, 9]), g)
        _, their_mean, their_logs = other(spec, mask, g)
        assert torch.equal(mean, their_mean)
        assert torch.equal(logs, their_logs)

        speaker = _random(Generator(8, "1", [3, 5], [[1, 3, 5]] * 2, [4, 2], 16, [8, 4], 12))
        other = vits.VitsHifiGan(CONFIG)
        _same_weights(speaker, other)
        assert torch.equal(speaker(x, g), other(x, g))

        durations = _random(DurationPredictor(16, 16, CONFIG.duration_predictor_kernel_size, 0.0, 12))
        other = vits.VitsDurationPredictor(CONFIG)
        names = {"gamma": "weight", "beta": "bias"}
        renamed = {
            re.sub("gamma|beta", lambda found: names[found[0]], key): value
            for key, value in durations.state_dict().items()
        }
        other.load_state_dict(renamed, strict=True)
        hidden = torch.randn(2, 16, 13)
        assert torch.equal(durations(hidden, mask, g), other.eval()(hidden, mask, g))


def test_durations_from_a_flow_have_as_many_tensors() -> None:
    ours = StochasticDurationPredictor(16, 16, 3, 0.0, 4, 12).state_dict()
    theirs = vits.VitsStochasticDurationPredictor(CONFIG).state_dict()
    assert len(ours) == len(theirs) == 286
    assert sorted(map(tuple, (each.shape for each in ours.values()))) == sorted(
        map(tuple, (each.shape for each in theirs.values()))
    )
