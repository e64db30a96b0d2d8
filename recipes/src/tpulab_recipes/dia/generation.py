"""Speech from text: one token row at a time against a static key-value cache, as two programs for any texts
and any number of rows.

The table of tokens is delayed: channel c of frame t stands in row t + 1 + delay[c], row 0 is BOS. A cell that
is known beforehand (BOS, a prompt) is kept; an open one (-1) gets the model's token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from tpulab_recipes.audio.sampling import best, decode, drawn, nucleus
from tpulab_recipes.common.errors import ConfigError
from tpulab_recipes.dia.config import Sampling as Sampling
from tpulab_recipes.dia.data import Layout, delayed, reverted
from tpulab_recipes.dia.model import make_static, rule_of
from tpulab_recipes.runtime import Backend
from tpulab_recipes.torch_training import core_of

OPEN = -1


def choose(
    conditional: torch.Tensor,
    unconditional: torch.Tensor,
    draws: torch.Tensor,
    s: Sampling,
    eos: int,
    rule: str,
) -> torch.Tensor:
    """Int[batch, channel], a token for each row of logits, Float[batch, channel, id]. draws: Float[batch,
    channel] in [0, 1), used up in order of the ids."""
    scores = guided_scores(conditional, unconditional, s, eos, rule)
    return scores.argmax(-1) if s.temperature == 0 else drawn(probabilities(scores, s, eos, rule), draws)


def guided_scores(
    conditional: torch.Tensor, unconditional: torch.Tensor, s: Sampling, eos: int, rule: str
) -> torch.Tensor:
    """The logits to choose from: ids that a channel may not choose are -inf (above EOS; EOS on all but 0).

    0626: guidance chooses the `top_k` candidates, whose values stay the conditional ones. v0.1: the guided
    values themselves, EOS times 0.8.
    """
    conditional, unconditional = conditional.float(), unconditional.float()
    scores = conditional + s.guidance * (conditional - unconditional)
    ids = torch.arange(scores.shape[-1], device=scores.device)
    first = (torch.arange(scores.shape[1], device=scores.device) == 0)[:, None]
    if rule == "0626":
        candidates = torch.zeros_like(scores, dtype=torch.bool)
        candidates = candidates.scatter(-1, best(scores, s.top_k)[1], True)
        scores = torch.where(candidates, conditional, -torch.inf)
    else:
        scores = torch.where(first & (ids == eos), 0.8 * scores, scores)
    return torch.where((ids < eos) | (first & (ids == eos)), scores, -torch.inf)


def probabilities(scores: torch.Tensor, s: Sampling, eos: int, rule: str) -> torch.Tensor:
    """Float[batch, channel, id]: softmax of the scores inside top-k and top-p. 0626: EOS is certain where it
    is the argmax, and else impossible."""
    if rule == "0626":
        ids = torch.arange(scores.shape[-1], device=scores.device)
        ends = scores.argmax(-1, keepdim=True) == eos
        scores = torch.where(torch.where(ends, ids >= eos, ids != eos), scores, -torch.inf)
    return nucleus(scores / s.temperature, s.top_k, s.top_p)


def prompt_table(
    prompts: Sequence[Any], rows: int, delay: Sequence[int], bos: int, *, short: bool = False
) -> torch.Tensor:
    """Int64[text, row, channel]: BOS, then the codes of each prompt (Int[frame, channel] or None), delayed;
    open cells are -1. `short`: as `Sampling.short_prompt_table`."""
    frames = np.full((len(prompts), rows, len(delay)), OPEN)
    frames[:, 0] = bos
    for each, prompt in zip(frames, prompts, strict=True):
        if prompt is not None:
            each[1 : len(prompt) + 1] = np.asarray(prompt)
    table = delayed(frames, delay, bos)
    if short:
        table[:, max(0 if prompt is None else len(prompt) for prompt in prompts) + max(delay) :] = OPEN
    return torch.from_numpy(table)


def generate(
    model: Any,
    backend: Backend,
    text_ids: Sequence[Any],
    settings: Sampling,
    *,
    prompts: Sequence[Any] | None = None,
    draws: torch.Tensor | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[torch.Tensor]:
    """The codes of each text, Int64[frame, channel], without its prompt and its end.

    Args:
        model: on the backend's device (`backend.prepare`).
        text_ids: the byte ids of each text.
        prompts: codes of a voice to continue, Int[frame, channel], or None, for each text; their text stands
            at the beginning of `text_ids`.
        draws: Float[row, text, channel] in [0, 1) instead of those of `settings.seed`.
        on_progress: called with the rows done, every 16 rows.

    Raises `ConfigError` for a text or prompt that does not fit.
    """
    tokens, ended = generate_table(model, backend, text_ids, settings, prompts, draws, on_progress)
    layout = Layout.of(model.config)
    frames = torch.from_numpy(reverted(tokens.numpy(), layout.delay, layout.pad))
    codes = []
    for number, end in enumerate(ended.tolist()):
        start = 1 + (0 if prompts is None or prompts[number] is None else len(prompts[number]))
        part = frames[number, start : max(start, end)]
        codes.append(torch.where(part < layout.eos, part, 0))
    return codes


@torch.no_grad()
def generate_table(
    model: Any,
    backend: Backend,
    text_ids: Sequence[Any],
    settings: Sampling,
    prompts: Sequence[Any] | None = None,
    draws: torch.Tensor | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`generate` without the final removal of the delay: the table, Int64[text, row, channel], and the row of
    channel 0's EOS, Int64[text]. Rows after a text's end hold PAD."""
    s, config = settings, model.config.decoder_config
    delay, texts = model.config.delay_pattern, len(text_ids)
    prompts = [None] * texts if prompts is None else prompts
    _check(text_ids, prompts, s, model.config)
    rows = -(-(s.max_tokens + 1) // 128) * 128
    table = prompt_table(prompts, rows, delay, config.bos_token_id, short=s.short_prompt_table)
    if draws is None:
        source = torch.Generator().manual_seed(s.seed)
        draws = torch.rand(rows, texts, len(delay), generator=source)
    draws = torch.cat([draws, draws.new_zeros(rows - len(draws), *draws.shape[1:])])
    text, mask = _padded(text_ids, s.text_length)
    model = core_of(model)
    training, implementation = model.training, model.config._attn_implementation
    make_static(model).eval()
    try:
        # The caches have the parameters' dtype, even when called from a training in bfloat16.
        with torch.autocast(model.device.type, enabled=False):
            decoder = _Decoder(model, backend, s, texts, rows, draws, last=s.max_tokens - max(delay))
            return decoder.run(table, text, mask, on_progress)
    finally:
        model.train(training)
        model.set_attn_implementation(implementation)


class _Decoder:
    """Caches and counters on the device, and the two programs over them: `start` reads the texts, `step`
    writes the next row. Streams 0..texts-1 read their text; the others, for guidance, read zeros."""

    def __init__(
        self, model: Any, backend: Backend, s: Sampling, texts: int, rows: int, draws: torch.Tensor, last: int
    ) -> None:
        self.model, self.backend, self.s, self.rule = model, backend, s, rule_of(model)
        config = model.config.decoder_config
        self.texts, self.max_tokens = texts, s.max_tokens
        self.eos, self.pad = config.eos_token_id, config.pad_token_id
        place = backend.to_device
        self.draws, self.last = place(draws), place(torch.tensor(last))
        self.delay = place(torch.tensor(model.config.delay_pattern))
        self.row = place(torch.tensor(1))
        self.ended = place(torch.full((texts,), rows))
        weight = model.logits_dense.weight
        self.own = StaticCache(config, max_cache_len=rows)
        self.own.early_initialization(
            2 * texts, config.num_key_value_heads, config.head_dim, weight.dtype, weight.device
        )
        for layer in self.own.layers:
            # transformers marks its buffers as fixed addresses, for CUDA graphs: torch.compile would compile
            # each call of `generate` again.
            kept = layer.keys, layer.values, layer.cumulative_length
            layer.keys, layer.values, layer.cumulative_length = (torch.zeros_like(each) for each in kept)
        self.valid = place(torch.ones(2 * texts, rows, dtype=torch.bool))

    def run(self, table: Any, text: Any, mask: Any, on_progress: Any) -> tuple[torch.Tensor, torch.Tensor]:
        self.table, text, self.mask = self.backend.to_device([table, text, mask])
        start, step = self.backend.compile(self.start), self.backend.compile(self.step)
        start(text)
        decode(self.backend, step, self.max_tokens, on_progress)
        table, ended = self.backend.to_host([self.table, self.ended])
        return torch.as_tensor(table), torch.as_tensor(ended)

    def start(self, text: torch.Tensor) -> torch.Tensor:
        """Encodes the texts and keeps their keys and values for every cross-attention."""
        model = self.model.model
        # The unconditional stream keeps the padding mask of its text.
        self.mask = self.mask.repeat(2, 1)
        streams = torch.cat([text, torch.zeros_like(text)])
        self.encoded = model.encoder(input_ids=streams, attention_mask=self.mask).last_hidden_state
        cross = DynamicCache()
        for number, layer in enumerate(model.decoder.layers.children()):
            attention = layer.cross_attention
            shape = (*self.encoded.shape[:2], -1, attention.head_dim)
            keys = attention.k_proj(self.encoded).view(shape).transpose(1, 2)
            values = attention.v_proj(self.encoded).view(shape).transpose(1, 2)
            cross.update(keys, values, number)
        self.cache = EncoderDecoderCache(self.own, cross)
        return self.encoded

    def step(self) -> torch.Tensor:
        """Writes row `self.row` of the table; returns whether all texts have ended, their tails included."""
        before = self.table.index_select(1, self.row[None] - 1).repeat(2, 1, 1)
        logits = self.model(
            attention_mask=self.mask,
            encoder_outputs=(self.encoded,),
            decoder_input_ids=before,
            decoder_attention_mask=self.valid,
            past_key_values=self.cache,
            use_cache=True,
        ).logits.view(2, self.texts, len(self.delay), -1)
        draws = self.draws.index_select(0, self.row[None] - 1)[0]
        chosen = choose(logits[0], logits[1], draws, self.s, self.eos, self.rule)
        known = self.table.index_select(1, self.row[None])[:, 0]
        ends = ((chosen[:, 0] == self.eos) & (known[:, 0] == OPEN)) | (self.row >= self.last)
        self.ended = torch.where(ends, torch.minimum(self.ended, self.row), self.ended)
        since = (self.row - self.ended)[:, None]
        chosen = torch.where(since == self.delay, self.eos, torch.where(since > self.delay, self.pad, chosen))
        written = torch.where(known == OPEN, chosen, known)
        self.table = self.table.index_copy(1, self.row[None], written[:, None])
        self.row = self.row + 1
        return (self.row > self.ended + self.delay.max()).all().int()


def _padded(text_ids: Sequence[Any], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and their mask, Int64[text, position], padded with 0."""
    longest = max(len(ids) for ids in text_ids)
    width = length or -(-longest // 128) * 128
    text, mask = torch.zeros(2, len(text_ids), width, dtype=torch.int64)
    for row, valid, ids in zip(text, mask, text_ids, strict=True):
        row[: len(ids)] = torch.as_tensor(ids)
        valid[: len(ids)] = 1
    return text, mask


def _check(text_ids: Sequence[Any], prompts: Sequence[Any], s: Sampling, config: Any) -> None:
    limit = s.text_length or config.encoder_config.max_position_embeddings
    room = s.max_tokens - max(config.delay_pattern) - 1
    if s.max_tokens > config.decoder_config.max_position_embeddings or room < 1:
        raise ConfigError(
            "max_tokens",
            f"{s.max_tokens} is not between {max(config.delay_pattern) + 2} and the model's "
            f"{config.decoder_config.max_position_embeddings}.",
        )
    if not text_ids or len(prompts) != len(text_ids):
        raise ConfigError("prompts", f"{len(prompts)} prompts do not match {len(text_ids)} texts.")
    for number, (ids, prompt) in enumerate(zip(text_ids, prompts, strict=True)):
        if not 0 < len(ids) <= limit:
            raise ConfigError("text", f"text {number} has {len(ids)} bytes; 1 to {limit} are possible.")
        if prompt is not None and len(prompt) > room:
            raise ConfigError(
                "prompts",
                f"prompt {number} has {len(prompt)} frames; with max_tokens {s.max_tokens}, "
                f"{room} at most fit.",
            )


#: Rows of codes for one byte of text in fast speech: 86 rows and 16 letters per second. A text with fewer
#: bytes than the second value is never divided for its length.
_ROWS_A_BYTE, _SHORT = 5.4, 64
_SENTENCE = re.compile(r".+?(?:[.!?。！？…]+[\"'”’)]*(?=\s)|$)", re.DOTALL)


def chunks_of(text: str, most: int) -> list[str]:
    """A text in parts of at most `most` bytes: between speakers and sentences or, where one is too long,
    between words. Each part begins with its speaker. Raises `ConfigError` for a word that is too long."""
    parts: list[str] = []
    speaker = before = ""
    for part in re.split(r"(\[S[12]\])", text):
        if re.fullmatch(r"\[S[12]\]", part):
            speaker = part
            continue
        for sentence in _SENTENCE.findall(part.strip()):
            for words in _fitting(sentence.strip(), most - len(f"{speaker} ".lstrip())):
                tagged = f"{speaker} {words}".strip()
                joined = f"{parts[-1]} {words if speaker == before else tagged}" if parts else ""
                if joined and len(joined.encode()) <= most:
                    parts[-1] = joined
                else:
                    parts.append(tagged)
                before = speaker
    return parts


def _fitting(piece: str, most: int) -> list[str]:
    """A sentence, or where it has more bytes its words in as few lines as hold them."""
    if len(piece.encode()) <= most:
        return [piece] if piece else []
    lines: list[str] = []
    for word in piece.split():
        if len(word.encode()) > most:
            raise ConfigError("text", f"the word {word[:40]!r} has {len(word.encode())} bytes; {most} fit.")
        if lines and len(f"{lines[-1]} {word}".encode()) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def speak(
    model: Any,
    backend: Backend,
    tokenize: Callable[[str], Sequence[int]],
    texts: Sequence[str],
    settings: Sampling,
    *,
    prompt: Any = None,
    prompt_text: str = "",
) -> list[torch.Tensor]:
    """The codes of texts of any length, Int64[frame, channel].

    A long text is spoken in parts, all in the voice of the prompt or, without one, in that of its first part.
    Parts and texts are written together. Raises `ConfigError` for what does not fit.
    """
    limit = settings.text_length or model.config.encoder_config.max_position_embeddings
    room = settings.max_tokens - Layout.of(model.config).overhead

    def most(voice: Any, prompt: str) -> int:
        rows = room - (0 if voice is None else len(voice))
        return min(limit - (len(prompt.encode()) + 1 if prompt else 0), max(_SHORT, int(rows / _ROWS_A_BYTE)))

    def written(parts: Sequence[str], voices: Sequence[tuple[Any, str]]) -> list[torch.Tensor]:
        ids = [tokenize(f"{prompt} {part}".strip()) for part, (_, prompt) in zip(parts, voices, strict=True)]
        return generate(model, backend, ids, settings, prompts=[voice for voice, _ in voices])

    def parts_of(text: str, most: int) -> list[str]:
        return [text] if len(text.encode()) <= most else chunks_of(text, most)

    fits = most(prompt, prompt_text)
    if prompt is not None or all(len(text.encode()) <= fits for text in texts):
        parts = [parts_of(text, fits) for text in texts]
        flat = [part for each in parts for part in each]
        codes = iter(written(flat, [(prompt, prompt_text)] * len(flat)))
        return [torch.cat([next(codes) for _ in each]) for each in parts]
    # The first parts leave room for the others beside them.
    parts = [parts_of(text, fits // 2) for text in texts]
    spoken = [[each] for each in written([each[0] for each in parts], [(None, "")] * len(parts))]
    later = [(number, part) for number, each in enumerate(parts) for part in each[1:]]
    voices = [(spoken[number][0], parts[number][0]) for number, _ in later]
    for (number, _), speech in zip(later, written([part for _, part in later], voices), strict=True):
        spoken[number].append(speech)
    return [torch.cat(each) for each in spoken]
