"""The first stage of GPT-SoVITS: a transformer that reads phonemes and writes semantic tokens,
one after the other, with a cache of one size and one program a token.

Parameter names are those of RVC-Boss/GPT-SoVITS 48b1a01 (`AR/models/t2s_model.py`); its rules of sampling and
stopping are kept, and its faults are in docs/recipe-notes.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tpulab_recipes.audio.sampling import decode
from tpulab_recipes.common.errors import CheckpointError, ConfigError
from tpulab_recipes.gpt_sovits.checkpoints import load_weights, read_container
from tpulab_recipes.gpt_sovits.modules import named, sequence_mask
from tpulab_recipes.runtime import Backend

#: New ids before the first that may be EOS: 0.44 s of 25 Hz.
MIN_IDS = 11
#: Settings of `Sampling` and their smallest values; `top_k` 0 disables it.
_MIN_OF = {"top_k": 0, "top_p": 0, "temperature": 0, "repetition_penalty": 0.01, "max_ids": 1, "seed": 0}
#: Maximum number of a text's phonemes, and of semantic tokens including the prompt's.
PLACES = 4000
#: Texts and prompts are padded to multiples of these, so that few lengths mean few programs.
TEXT_STEP, PROMPT_STEP = 64, 64


@dataclass(frozen=True)
class Sampling:
    """The original's defaults."""

    top_k: int = 15
    top_p: float = 1.0
    temperature: float = 1.0
    repetition_penalty: float = 1.35
    """For each id that stands anywhere in prompt or output, once."""
    max_ids: int = 1500
    """Ids written at most; 25 are a second."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _MIN_OF.items():
            if not least <= getattr(self, name) < math.inf:
                raise ConfigError(name, f"{getattr(self, name)} is not a number from {least}.")


class _Position(nn.Module):
    """Sines and cosines times a learned alpha, added to embeddings that are not scaled."""

    pe: torch.Tensor

    def __init__(self, width: int, longest: int = PLACES, dropout: float = 0.1) -> None:
        super().__init__()
        self.alpha, self.dropout = nn.Parameter(torch.ones(1)), nn.Dropout(dropout)
        rates = torch.exp(torch.arange(0, width, 2).float() * -(math.log(10000.0) / width))
        angles = torch.arange(longest).float()[:, None] * rates
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        self.register_buffer("pe", table, persistent=False)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """x: Float[batch, place, width]; places: Int[place] or Int[batch, place]."""
        return self.dropout(x + self.alpha * self.pe[places])


class _Layer(nn.TransformerEncoderLayer):
    """PyTorch's layer, but its queries can also see the keys and values of a cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, 4 * width)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, Float[batch, place, width] each."""
        q, k, v = F.linear(x, self.self_attn.in_proj_weight, self.self_attn.in_proj_bias).chunk(3, dim=-1)
        return q, k, v

    def forward(
        self, x: torch.Tensor, hidden: torch.Tensor, qkv: Sequence[torch.Tensor] | None = None
    ) -> torch.Tensor:
        """`hidden`: Bool[batch, query, key], true where a query must not attend. `qkv`: None: of `x`."""
        heads = self.self_attn.num_heads
        q, k, v = (each.unflatten(2, (heads, -1)).transpose(1, 2) for each in qkv or self.project(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = self.dropout(scores.masked_fill(hidden[:, None], -torch.inf).softmax(-1))
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.dropout1(self.self_attn.out_proj(mixed)))
        inner = self.dropout(self.linear1(x).relu())
        fed: torch.Tensor = self.norm2(x + self.dropout2(self.linear2(inner)))
        return fed


class Text2SemanticDecoder(nn.Module):
    """Text places see all of the text; an id sees the text and the ids before it."""

    def __init__(
        self,
        hidden_dim: int = 512,
        head: int = 16,
        n_layer: int = 24,
        vocab_size: int = 1025,
        phoneme_vocab_size: int = 732,
        bert_channels: int = 1024,
        **_: Any,
    ) -> None:
        super().__init__()
        self.eos = vocab_size - 1
        self.bert_proj = nn.Linear(bert_channels, hidden_dim)
        self.ar_text_embedding = named("word_embeddings", nn.Embedding(phoneme_vocab_size, hidden_dim))
        self.ar_text_position = _Position(hidden_dim)
        self.ar_audio_embedding = named("word_embeddings", nn.Embedding(vocab_size, hidden_dim))
        self.ar_audio_position = _Position(hidden_dim)
        self.h = named("layers", nn.ModuleList(_Layer(hidden_dim, head) for _ in range(n_layer)))
        self.ar_predict_layer = nn.Linear(hidden_dim, vocab_size, bias=False)
        self.recompute: Callable[..., Any] | None = None

    @property
    def layers(self) -> Any:
        return self.h.layers

    def text_states(self, x: torch.Tensor, bert: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Float[batch, place, width]. x: Int[batch, place]; bert: Float[batch, channel, place]."""
        embedded = self.ar_text_embedding(x) + self.bert_proj(bert.transpose(1, 2))
        return self.ar_text_position(embedded, places)

    def id_states(self, y: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return self.ar_audio_position(self.ar_audio_embedding(y), places)

    def forward(
        self,
        x: torch.Tensor,
        x_lens: torch.Tensor,
        y: torch.Tensor,
        y_lens: torch.Tensor,
        bert: torch.Tensor,
        *,
        mask_first_places: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(logits, targets) for given ids: Float[batch, id + 1, entry], Int[batch, id + 1].

        Texts are padded on the right and their padding is hidden; `mask_first_places` hides the first
        places instead, as the original does in training.
        """
        text, ids = x.shape[1], y.shape[1]
        counts = sequence_mask(x_lens, text)
        counts = counts.flip(1) if mask_first_places else counts
        kept = sequence_mask(y_lens, ids)
        codes = torch.where(kept, y, self.eos)
        targets = F.pad(codes, (0, 1), value=self.eos)
        of_text = self.text_states(x, bert, torch.arange(text, device=x.device))
        of_ids = self.id_states(codes, torch.arange(ids, device=x.device))
        states = torch.cat([of_text, of_ids], 1)
        hidden = self._hidden(text, ids, x.device) | ~torch.cat([counts, kept], 1)[:, None]
        # A row of padding attends to itself: no row of the softmax is empty.
        for layer in self.layers:
            again = self.recompute if torch.is_grad_enabled() else None
            states = again(layer, states, hidden) if again else layer(states, hidden)
        # The last position of the text predicts the first id.
        if mask_first_places:
            return self.ar_predict_layer(states[:, text - 1 :]), targets
        first = states.gather(1, (x_lens - 1)[:, None, None].expand(-1, 1, states.shape[2]))
        return self.ar_predict_layer(torch.cat([first, states[:, text:]], 1)), targets

    @staticmethod
    def _hidden(text: int, ids: int, device: Any) -> torch.Tensor:
        """Bool[1, query, key] without padding."""
        query, key = (torch.arange(text + ids, device=device),) * 2
        of_text = (query < text)[:, None] & (key >= text)
        later = (query >= text)[:, None] & (key[None] > query[:, None])
        return (of_text | later)[None]


def penalised(logits: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Logits of ids that were `seen` (Bool[batch, id]) divided by the penalty where positive, times it where
    negative (Keskar et al. 2019), in a copy."""
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def probabilities(logits: torch.Tensor, s: Sampling) -> torch.Tensor:
    """Float[batch, id] after top-p, temperature and top-k, in this order. Top-p leaves out the id that
    crosses the limit; ids that tie at the limit of top-k all stay."""
    if s.top_p < 1:
        values, ids = logits.sort(dim=-1, descending=True)
        out = values.softmax(-1).cumsum(-1) > s.top_p
        out[:, 0] = False
        logits = logits.masked_fill(torch.zeros_like(out).scatter(1, ids, out), -torch.inf)
    logits = logits / max(s.temperature, 1e-5)
    if s.top_k > 0:
        pivot = logits.topk(min(s.top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < pivot, -torch.inf)
    return logits.softmax(-1)


def generate(
    model: Any,
    backend: Backend,
    texts: Sequence[Any],
    settings: Sampling,
    *,
    berts: Sequence[Any] | None = None,
    prompt: Any = None,
    text_step: int = TEXT_STEP,
    draws: Callable[[int], Any] | None = None,
) -> list[torch.Tensor]:
    """The new semantic tokens of each text, Int64[token], all of them, without prompt and EOS.

    Args:
        model: on the backend's device (`backend.prepare`).
        texts: phoneme numbers, Int[place] each: the prompt's text first, then the text to speak.
        berts: Float[channel, place] each; zeros where None (all languages but Chinese).
        prompt: Int[text, token] of a voice to continue, or None.
        text_step: texts are padded to a multiple of it.
        draws: Float[text, entry], exponential, of a step, instead of those of the seed.

    Raises `ConfigError` for invalid texts or prompts.
    """
    if not texts or any(len(text) == 0 for text in texts):
        raise ConfigError("text", "there is nothing to speak.")
    if (longest := max(map(len, texts))) > PLACES:
        raise ConfigError("text", f"it has {longest} phonemes with the reference's; at most {PLACES} fit.")
    prompt = np.zeros((len(texts), 0), np.int64) if prompt is None else np.asarray(prompt, np.int64)
    if prompt.shape[0] != len(texts):
        raise ConfigError("prompt", f"{prompt.shape[0]} prompts do not go with {len(texts)} texts.")
    if prompt.shape[1] + settings.max_ids > PLACES:
        raise ConfigError("max_sec", f"{settings.max_ids} tokens and the reference's are more than {PLACES}.")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return _Writer(model, backend, settings, texts, berts, prompt, text_step).run(draws)
    finally:
        model.train(training)


def _up(value: int, step: int) -> int:
    return max(step, -(-value // step) * step)


class _Writer:
    """Caches and counters on the device, and the two programs over them: `start` reads text and prompt,
    `step` writes the next id. Cached places: the text, its padding on the left, then the ids."""

    def __init__(
        self,
        model: Any,
        backend: Backend,
        s: Sampling,
        texts: Any,
        berts: Any,
        prompt: np.ndarray,
        text_step: int = TEXT_STEP,
    ) -> None:
        self.model, self.backend, self.s = model, backend, s
        self.rows, self.text = len(texts), _up(max(len(text) for text in texts), text_step)
        self.given, self.room = prompt.shape[1], _up(max(1, prompt.shape[1]), PROMPT_STEP)
        self.ids = _up(self.room + s.max_ids, PROMPT_STEP)
        x = np.zeros((self.rows, self.text), np.int64)
        bert = np.zeros((self.rows, model.bert_proj.in_features, self.text), np.float32)
        lens = np.array([len(text) for text in texts])
        for row, text in enumerate(texts):
            x[row, self.text - len(text) :] = np.asarray(text)
            if berts is not None and berts[row] is not None:
                bert[row, :, self.text - len(text) :] = np.asarray(berts[row])
        y, seen = np.zeros((self.rows, self.room), np.int64), np.zeros((self.rows, model.eos + 1), bool)
        y[:, : self.given] = prompt
        for row in range(self.rows):
            seen[row, prompt[row]] = True
        place = backend.to_device
        self.inputs = place([x, bert, lens, y])
        self.seen, self.lens = place(torch.from_numpy(seen)), place(torch.from_numpy(lens))
        self.written = place(torch.full((self.rows, s.max_ids), model.eos))
        self.ended = place(torch.full((self.rows,), s.max_ids))
        self.number = place(torch.tensor(0))
        self.prompt_length = place(torch.tensor(self.given))
        self.caches: list[tuple[torch.Tensor, torch.Tensor]] = []

    def run(self, draws: Any) -> list[torch.Tensor]:
        start, step = self.backend.compile(self.start), self.backend.compile(self.step)
        random = np.random.default_rng(self.s.seed)
        shape = (self.rows, self.model.eos + 1)

        numbers = itertools.count()

        def next_id() -> Any:
            number = next(numbers)
            drawn = random.exponential(size=shape) if draws is None else draws(number)
            return step(self.backend.to_device(np.asarray(drawn, np.float32)))

        self.state = start(self.inputs)
        decode(self.backend, next_id, self.s.max_ids)
        written, ended = self.backend.to_host([self.written, self.ended])
        return [ids[: int(end)].long() for ids, end in zip(written, ended, strict=True)]

    def start(self, inputs: Any) -> torch.Tensor:
        """Fills the caches; returns the state that predicts the first id, Float[row, width]."""
        x, bert, lens, y = inputs
        device = x.device
        places = (torch.arange(self.text, device=device)[None] - (self.text - lens)[:, None]).clamp(min=0)
        counts = sequence_mask(lens, self.text).flip(1)
        text = self.model.text_states(x, bert, places) * counts[:, :, None]
        states = torch.cat([text, self.model.id_states(y, torch.arange(self.room, device=device))], 1)
        hidden = self.model._hidden(self.text, self.room, device)
        hidden = hidden | F.pad(~counts, (0, self.room))[:, None]
        for layer in self.model.layers:
            q, k, v = layer.project(states)
            states = layer(states, hidden, (q, k, v))
            self.caches.append(tuple(F.pad(each, (0, 0, 0, self.ids - self.room)) for each in (k, v)))
        last = self.text - 1 + self.prompt_length
        return states.index_select(1, last[None])[:, 0]

    def step(self, draws: torch.Tensor) -> torch.Tensor:
        """Writes the next id; returns whether all texts have ended."""
        s, eos = self.s, self.model.eos
        logits = self.model.ar_predict_layer(self.state).float()
        entries = torch.arange(eos + 1, device=logits.device)
        logits = torch.where((entries == eos) & (self.number < MIN_IDS), -torch.inf, logits)
        logits = penalised(logits, self.seen, s.repetition_penalty)
        chosen = (probabilities(logits, s) / draws).argmax(-1)
        # The text ends if EOS is drawn or is the likeliest id; EOS is not part of the text.
        ends = (chosen == eos) | (logits.argmax(-1) == eos)
        self.ended = torch.where(ends, torch.minimum(self.ended, self.number), self.ended)
        self.written = self.written.index_copy(1, self.number[None], chosen[:, None])
        self.seen = self.seen | (chosen[:, None] == entries)
        place = self.prompt_length + self.number
        states = self.model.id_states(chosen[:, None], place[None])
        slot = self.text + place
        slots = torch.arange(self.text + self.ids, device=logits.device)
        hidden = (slots[None] > slot) | (slots[None] < (self.text - self.lens)[:, None])
        for number, layer in enumerate(self.model.layers):
            q, *fresh = layer.project(states)
            held = self.caches[number]
            kept = tuple(
                cache.index_copy(1, slot[None], each.to(cache.dtype))
                for cache, each in zip(held, fresh, strict=True)
            )
            self.caches[number] = kept
            states = layer(states, hidden[:, None], (q, *kept))
        self.state, self.number = states[:, 0], self.number + 1
        return (self.number > self.ended).all().int()


def load_first_stage(file: str | Path) -> Text2SemanticDecoder:
    """The first stage of an `s1` checkpoint (`weight` with the prefix `model.`, and `config`). Raises
    `CheckpointError` where its keys do not fit its configuration."""
    state, rest = read_container(file)
    state = {key.removeprefix("model."): value for key, value in state.items()}
    if "bert_proj.weight" not in state:
        raise CheckpointError(f"{file} is no first stage: it has no bert_proj.")
    try:
        sizes = rest.get("config", {}).get("model", {})
        model = Text2SemanticDecoder(**sizes, bert_channels=state["bert_proj.weight"].shape[1])
    except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise CheckpointError(f"{file} has a configuration of no first stage ({why}).") from error
    load_weights(model, state, str(file))
    return model.eval()
