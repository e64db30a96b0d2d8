"""Every component against the arrays that the original computed, under its own parameter names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tpulab_recipes.audio.hifigan import (  # noqa: E402
    MultiPeriodDiscriminator,
    discriminator_loss,
    feature_loss,
    fold_weight_norm,
    generator_loss,
    unfold_weight_norm,
)
from tpulab_recipes.audio.mel import MelSettings, MelSpectrogram  # noqa: E402
from tpulab_recipes.gpt_sovits.models import (  # noqa: E402
    DurationPredictor,
    Encoder,
    FourierGenerator,
    Generator,
    PosteriorEncoder,
    ResidualCouplingBlock,
    StochasticDurationPredictor,
    TextEncoder,
)
from tpulab_recipes.gpt_sovits.modules import (  # noqa: E402
    MRTE,
    WN,
    AttentionEncoder,
    MelStyleEncoder,
    ResidualVectorQuantizer,
    gated,
    grad_norm,
    kl_loss,
    mask_of,
    rand_slice_segments,
    sequence_mask,
    slice_segments,
    spline,
)

from .reference import golden, loaded, meta, near, tensor, weights  # noqa: E402


def test_attention_with_relative_places() -> None:
    name = "attention_encoder"
    given = meta(name)["config"]
    names = ("hidden_channels", "filter_channels", "n_heads", "n_layers", "kernel_size", "p_dropout")
    encoder = loaded(AttentionEncoder(*(given[each] for each in names)), name)
    for size in ("long", "short"):
        x = tensor(name, f"in/x_{size}")
        mask = mask_of(tensor(name, f"in/lengths_{size}"), x)
        near(encoder(x, mask), name, f"out/y_{size}")


def test_posterior_encoder_and_wavenet() -> None:
    name = "posterior_encoder"
    given = meta(name)
    x, lengths, g = (tensor(name, f"in/{each}") for each in ("x", "lengths", "g"))
    posterior = loaded(PosteriorEncoder(**given["config"]), name, "posterior")
    found = posterior(x, lengths, g, tensor(name, "draws/randn_like_0"))
    for each, key in zip(found, ("z", "m", "logs", "mask"), strict=True):
        near(each, name, f"out/{key}")
    stats, _ = loaded(Encoder(**given["config"]), name, "encoder")(x, lengths, g)
    near(stats, name, "out/stats_encoder")
    keys = ("hidden_channels", "kernel_size", "dilation_rate", "n_layers")
    wavenet = loaded(WN(*(given["config_wn"][key] for key in keys)), name, "wn")
    x = tensor(name, "in/x_wn")
    near(wavenet(x, mask_of(tensor(name, "in/lengths_wn"), x)), name, "out/y_wn")


def test_flow_both_ways() -> None:
    name = "flow"
    flow = loaded(ResidualCouplingBlock(**meta(name)["config"]), name)
    x, g = tensor(name, "in/x"), tensor(name, "in/g")
    mask = mask_of(tensor(name, "in/lengths"), x)
    z_p = flow(x, mask, g)
    near(z_p, name, "out/z_p")
    near(flow(z_p, mask, g, reverse=True), name, "out/x_back")
    near(flow(tensor(name, "in/x2"), mask, g, reverse=True), name, "out/z_rev")
    np.testing.assert_allclose(flow(z_p, mask, g, reverse=True).detach(), x * mask, atol=2e-6)


def test_durations_from_a_flow_and_by_regression() -> None:
    name = "duration"
    given = meta(name)
    x, g, w = (tensor(name, f"in/{each}") for each in ("x", "g", "w"))
    mask = mask_of(tensor(name, "in/lengths"), x)
    flow = loaded(StochasticDurationPredictor(**given["config"]), name, "sdp")
    near(flow(x, mask, w, g, noise=tensor(name, "draws/randn_0")), name, "out/nll")
    logw = flow(x, mask, g=g, reverse=True, noise_scale=0.8, noise=tensor(name, "draws/randn_1"))
    near(logw, name, "out/logw")
    near(loaded(DurationPredictor(**given["config_dp"]), name, "dp")(x, mask, g), name, "out/dp")


def test_spline_and_its_derivative() -> None:
    name = "spline"
    x, *knots = (tensor(name, f"in/{each}") for each in ("x", "widths", "heights", "derivatives"))
    x.requires_grad_()
    y, logdet = spline(x, *knots)
    near(y, name, "out/y", 1e-4)
    near(logdet, name, "out/logdet", 1e-4)
    (slope,) = torch.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(slope.log(), logdet.detach(), atol=2e-3, rtol=2e-3)
    for given, key in ((y.detach(), "back"), (x.detach(), "inverse")):
        back, logdet_back = spline(given, *knots, inverse=True)
        near(back, name, f"out/{'x_back' if key == 'back' else 'y_inverse'}", 1e-4)
        near(logdet_back, name, f"out/logdet_{key}", 1e-4)


def test_cross_attention_from_content_to_text_and_voice() -> None:
    name = "mrte"
    given = meta(name)["config"]
    mrte = loaded(
        MRTE(given["content_enc_channels"], given["hidden_size"], given["out_channels"], given["n_heads"]),
        name,
    )
    ssl, text, ge = (tensor(name, f"in/{each}") for each in ("ssl", "text", "ge"))
    masks = [mask_of(tensor(name, f"in/{each}_lengths"), x) for each, x in (("ssl", ssl), ("text", text))]
    near(mrte(ssl, masks[0], text, masks[1], ge), name, "out/y")
    near(mrte(ssl, masks[0], text, masks[1], None), name, "out/y_no_ge")


def test_voice_of_a_reference() -> None:
    name = "mel_style_encoder"
    given = meta(name)["config"]
    style = loaded(
        MelStyleEncoder(
            given["n_mel_channels"],
            given["style_hidden"],
            given["style_vector_dim"],
            given["style_kernel_size"],
            given["style_head"],
            given["dropout"],
        ),
        name,
    )
    x = tensor(name, "in/x")
    mask = mask_of(tensor(name, "in/lengths"), x)
    near(style(x * mask, mask), name, "out/w")
    near(style(x), name, "out/w_no_mask")


def test_text_encoder() -> None:
    name = "text_encoder"
    given = dict(meta(name)["config"])
    encoder = loaded(TextEncoder(**given), name)
    y, text, ge = (tensor(name, f"in/{each}") for each in ("y", "text", "ge"))
    lengths = [tensor(name, f"in/{each}_lengths") for each in ("y", "text")]
    for case, voice, options in (
        ("with_ge", ge, {}),
        ("no_ge", None, {}),
        ("speed125", ge, {"speed": 1.25}),
        ("speed080", ge, {"speed": 0.8}),
    ):
        found = encoder(y, lengths[0], text, lengths[1], voice, **options)
        for each, key in zip(found, ("y", "m", "logs", "mask"), strict=True):
            near(each, name, f"out/{case}/{key}")


def test_quantiser_evaluates_trains_and_replaces_dead_codes() -> None:
    name = "vq"
    given = meta(name)["config"]

    def quantiser(count: int) -> Any:
        made = ResidualVectorQuantizer(given["dimension"], count, given["bins"], given["decay"])
        return loaded(made, name, f"q{count}")

    x = tensor(name, "in/x")
    for count in (1, 2):
        each = quantiser(count)
        quantized, codes, commit, parts = each(x)
        near(quantized, name, f"out/eval_q{count}/quantized")
        near(codes, name, f"out/eval_q{count}/codes")
        near(commit, name, f"out/eval_q{count}/commit")
        near(parts[0], name, f"out/eval_q{count}/layer0")
        near(each.encode(x), name, f"out/eval_q{count}/encode")
        near(each.decode(codes), name, f"out/eval_q{count}/decode")
    for case in ("train", "expire", "kmeans"):
        each = quantiser(1).train()
        book = each.vq.layers[0]._codebook
        order = None if case == "train" else tensor(name, f"draws/randperm_{0 if case == 'expire' else 1}")
        if case == "expire":
            book.cluster_size.copy_(tensor(name, "in/expire_cluster_size"))
        if case == "kmeans":
            book.initialise(x.transpose(1, 2).reshape(-1, x.shape[1]), order, 50)
            order = tensor(name, "draws/randperm_2")
        given_x = x.clone().requires_grad_()
        quantized, codes, commit, _ = each(given_x, order)
        ((quantized * tensor(name, "in/gq")).sum() + commit).backward()
        near(quantized, name, f"out/{case}/quantized")
        near(codes, name, f"out/{case}/codes")
        near(commit, name, f"out/{case}/commit")
        near(given_x.grad, name, f"out/{case}/grad_x")
        for key in ("cluster_size", "embed_avg", "embed", "inited"):
            near(getattr(book, key), name, f"out/{case}/{key}")


def test_generator_and_folded_weights() -> None:
    name = "generator"
    given = dict(meta(name)["config"])
    x, g = tensor(name, "in/x"), tensor(name, "in/g")
    for kind, dilations in (("1", [[1, 3, 5]] * 2), ("2", [[1, 3]] * 2)):
        made = Generator(**given, resblock=kind, resblock_dilation_sizes=dilations)
        each = loaded(made, name, f"r{kind}")
        near(each(x, g), name, f"out/r{kind}")
        folded = fold_weight_norm(each)
        assert not [key for key in folded.state_dict() if key.endswith(("_g", "_v"))]
        near(folded(x, g), name, f"out/r{kind}")
        if kind == "1":
            near(each(x), name, "out/r1_no_g")
        near(unfold_weight_norm(folded)(x, g), name, f"out/r{kind}")
        assert set(folded.state_dict()) == set(weights(name, f"r{kind}"))


def test_discriminators_with_feature_maps() -> None:
    name = "mpd"
    judge = loaded(MultiPeriodDiscriminator(divisor=32), name)
    real, generated, maps_real, maps_generated = judge(tensor(name, "in/y"), tensor(name, "in/y_hat"))
    for side, scores, maps in (("r", real, maps_real), ("g", generated, maps_generated)):
        for i, (score, layers) in enumerate(zip(scores, maps, strict=True)):
            near(score, name, f"out/score_{side}/{i}")
            for j, layer in enumerate(layers):
                near(layer, name, f"out/fmap_{side}/{i}/{j}")
    assert [len(layers) for layers in maps_real] == [7, 6, 6, 6, 6, 6]


@pytest.mark.parametrize("case", ["small", "narrow_window", "real"])
def test_spectrogram_and_mel(case: str) -> None:
    n_fft, n_mels, rate, hop, window, low, high = meta("mel")["config"][case]
    mel = MelSpectrogram(MelSettings(rate, n_fft, hop, window, n_mels, low, high, center=False))
    wave = tensor("mel", f"in/wave_{case}")
    spec = mel.magnitude(wave)
    near(spec, "mel", f"out/{case}/spec")
    near(mel.mel(spec).clamp(min=1e-5).log(), "mel", f"out/{case}/mel_from_spec", 3e-5)
    near(mel(wave), "mel", f"out/{case}/mel_spectrogram", 3e-5)
    near(mel.filters, "mel", f"out/{case}/basis")


def test_losses_and_slices() -> None:
    name = "losses"
    file = golden(name)

    def lists(prefix: str) -> list[Any]:
        keys = [key for key in file.files if key.startswith(f"in/{prefix}/")]
        nested: dict[str, list[Any]] = {}
        for key in keys:
            nested.setdefault(key.split("/")[2], []).append(tensor(name, key))
        return list(nested.values())

    real, generated = [[each for pair in lists(key) for each in pair] for key in ("dr", "dg")]
    near(feature_loss(lists("fr"), lists("fg")), name, "out/feature")
    near(discriminator_loss(real, generated), name, "out/discriminator")
    near(generator_loss(generated), name, "out/generator")
    z_p, logs_q, m_p, logs_p, mask = (
        tensor(name, f"in/{key}") for key in ("z_p", "logs_q", "m_p", "logs_p", "z_mask")
    )
    near(kl_loss(z_p, logs_q, m_p, logs_p, mask), name, "out/kl")
    x, lengths = tensor(name, "in/x"), tensor(name, "in/x_lengths")
    near(slice_segments(x, tensor(name, "in/ids"), 6), name, "out/slice")
    part, starts = rand_slice_segments(x, lengths, 6, tensor(name, "draws/rand_0"))
    near(part, name, "out/rand_slice")
    near(starts, name, "out/rand_slice_ids")
    near(sequence_mask(lengths, 22), name, "out/sequence_mask")
    near(gated(tensor(name, "in/a"), tensor(name, "in/b")), name, "out/gated")
    parameters = [torch.nn.Parameter(torch.zeros(3, 4)), torch.nn.Parameter(torch.zeros(5))]
    for number, each in enumerate(parameters):
        each.grad = tensor(name, f"in/grads/{number}")
    near(grad_norm(parameters), name, "out/grad_norm")


def test_slices_begin_anywhere_with_equal_probability() -> None:
    from scipy.stats import chisquare

    torch.manual_seed(0)
    count, places = 40_000, 21
    x = torch.zeros(count, 1, 40)
    _, starts = rand_slice_segments(x, torch.full((count,), 40), 20)
    found = np.bincount(starts.numpy(), minlength=places)
    assert len(found) == places
    assert chisquare(found).pvalue > 1e-3
    # A row that is shorter than the window begins at its first frame; a draw of almost 1 fits.
    _, starts = rand_slice_segments(x[:2], torch.tensor([10, 40]), 20, torch.tensor([0.99, 1 - 2**-24]))
    assert starts.tolist() == [0, 20]


def test_a_decoder_of_frames_inverts_the_fourier_transform() -> None:
    decoder = FourierGenerator(4, "fourier", (7, 7), ((1,),) * 2, (80,), 16, (256,), 3)
    torch.manual_seed(0)
    wave = torch.randn(2, 1, 80 * 12)
    rim = (256 - 80) // 2
    padded = torch.nn.functional.pad(wave[:, 0], (rim, rim), mode="reflect")
    spectrum = torch.stft(padded, 256, 80, window=torch.hann_window(256), center=False, return_complex=True)
    assert torch.allclose(decoder.wave_of(spectrum.real, spectrum.imag), wave, atol=1e-4)
    x = torch.randn(2, 4, 12, requires_grad=True)
    made = decoder(x, torch.randn(2, 3, 1))
    assert made.shape == (2, 1, 960)
    made.square().mean().backward()
    assert x.grad is not None
    assert all(each.grad is not None and bool(each.grad.isfinite().all()) for each in decoder.parameters())
