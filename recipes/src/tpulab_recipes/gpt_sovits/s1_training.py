"""Training of the first stage: phonemes in, semantic tokens out, with the optimizer of the original
(ScaledAdam of icefall, Apache-2.0, as RVC-Boss/GPT-SoVITS 48b1a01 uses it).

Two faults of the original are not repeated (docs/recipe-notes.md): the loss is a mean over tokens and leaves
padding out, and of short texts the padding is hidden, not their first phonemes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tpulab_recipes.common.errors import CheckpointError, DataError
from tpulab_recipes.common.inputs import read_lines
from tpulab_recipes.gpt_sovits.checkpoints import save_container
from tpulab_recipes.gpt_sovits.config import FirstStageConfig
from tpulab_recipes.gpt_sovits.data import read_rows, shuffled_batches
from tpulab_recipes.gpt_sovits.modules import sequence_mask
from tpulab_recipes.gpt_sovits.s1 import Text2SemanticDecoder
from tpulab_recipes.gpt_sovits.text import numbers_of
from tpulab_recipes.torch_training import Resumable, backward_in_parts, compiled_step, set_learning_rate
from tpulab_recipes.torch_training.tensor_files import read_tensors

#: Semantic tokens of a second, and how many phonemes of a second are speech, as in the original.
TOKENS_PER_S, MIN_PHONEMES, MAX_PHONEMES = 25, 3, 25
#: The original trains its first update at five times the rate of all others.
FIRST_UPDATE = 5.0


@dataclass(frozen=True)
class TokenExample:
    name: str
    text: np.ndarray
    """Int64[phoneme]."""
    tokens: np.ndarray
    """Int64[token]."""
    bert: np.ndarray | None
    """Float32[channel, phoneme]."""

    @property
    def size(self) -> tuple[int, int]:
        """Phonemes and tokens that it is padded to: few sizes are few programs."""
        tokens = next(size for size in (128, 256, 512, 1024, 2048) if len(self.tokens) < size)
        return -(-len(self.text) // 128) * 128, tokens


def read_examples(exp_dir: str | Path, c: FirstStageConfig) -> tuple[list[TokenExample], dict[str, str]]:
    """The clips of a prepared folder that have semantic tokens, and why others are left out. Raises
    `DataError` for a folder without any."""
    root, reasons, found = Path(exp_dir), {}, []  # type: Path, dict[str, str], list[TokenExample]
    table = root / "6-name2semantic.tsv"
    if not table.exists():
        raise DataError(f"{table} is missing; give prepare the second stage, with --pretrained-s2G.")
    tokens = dict(line.split("\t", 1) for _, line in read_lines(table) if "\t" in line)
    for name, row in sorted(read_rows(root).items()):
        try:
            found.append(_example_of(root, name, row, tokens.get(name), c))
        except (DataError, CheckpointError) as error:
            reasons[name] = str(error)
    if not found:
        why = f" The first: {next(iter(reasons.values()))}" if reasons else ""
        raise DataError(f"{root} has no clip for the first stage.{why}")
    return found, reasons


def _example_of(
    root: Path, name: str, row: Sequence[str], written: str | None, c: FirstStageConfig
) -> TokenExample:
    if written is None:
        raise DataError("6-name2semantic.tsv lacks it; prepare again, with --pretrained-s2G")
    try:
        tokens = np.array([int(each) for each in written.split()], np.int64)
    except ValueError as error:
        raise DataError(f"its semantic tokens are no numbers ({error})") from error
    text = np.asarray(numbers_of(row[1].split(" "), c.version), np.int64)
    seconds = len(tokens) / TOKENS_PER_S
    if not len(tokens) or tokens.min() < 0 or tokens.max() >= c.codebook:
        raise DataError(f"its semantic tokens are not from 0 to below {c.codebook}")
    if seconds > c.max_sec:
        raise DataError(f"it lasts {seconds:.1f} s, and max_sec is {c.max_sec:g}")
    if not MIN_PHONEMES <= len(text) / seconds <= MAX_PHONEMES:
        rate = f"{len(text) / seconds:.1f} phonemes a second"
        raise DataError(f"{rate} are not from {MIN_PHONEMES} to {MAX_PHONEMES}; check its text")
    file, bert = root / "3-bert" / f"{name}.pt", None
    if file.exists():
        bert = np.asarray(read_tensors(file).float().numpy())
        if bert.shape != (c.bert_channels, len(text)):
            raise DataError(f"{file} is {bert.shape}, not {(c.bert_channels, len(text))}")
    return TokenExample(name, text, tokens, bert)


def batch_of(
    rows: Sequence[TokenExample], c: FirstStageConfig, count: int, with_bert: bool
) -> dict[str, Any]:
    """Arrays of one size; only the first `count` rows count."""
    (text, tokens), size = rows[0].size, len(rows)
    batch: dict[str, Any] = {
        "x": np.zeros((size, text), np.int64),
        "x_lens": np.array([len(one.text) for one in rows]),
        "y": np.zeros((size, tokens), np.int64),
        "y_lens": np.array([len(one.tokens) for one in rows]),
        # One place stands for all of them where no clip has features.
        "bert": np.zeros((size, c.bert_channels, text if with_bert else 1), np.float32),
        "counts": (np.arange(size) < count).astype(np.float32),
    }
    for place, one in enumerate(rows):
        batch["x"][place, : len(one.text)] = one.text
        batch["y"][place, : len(one.tokens)] = one.tokens
        if one.bert is not None:
            batch["bert"][place, :, : len(one.text)] = one.bert
    return batch


def steps_per_epoch(spoken: Sequence[TokenExample], c: FirstStageConfig) -> int:
    return len(_epoch(spoken, c, 0))


def _epoch(spoken: Sequence[TokenExample], c: FirstStageConfig, epoch: int) -> list[tuple[Any, list[int]]]:
    return shuffled_batches(
        [one.size for one in spoken], c.batch_size * c.grad_accum_steps, [c.seed, 3, epoch]
    )


def train_batches(
    spoken: Sequence[TokenExample], c: FirstStageConfig, first: int
) -> Iterator[dict[str, Any]]:
    """All batches of the epochs from number `first` on."""
    with_bert, in_epoch = any(one.bert is not None for one in spoken), steps_per_epoch(spoken, c)
    for epoch in range(first // in_epoch, c.epochs):
        for place, (_, numbers) in enumerate(_epoch(spoken, c, epoch)):
            if epoch * in_epoch + place >= first:
                yield batch_of([spoken[each] for each in numbers], c, len(numbers), with_bert)


def eval_batches(
    spoken: Sequence[TokenExample], c: FirstStageConfig, with_bert: bool
) -> Iterator[dict[str, Any]]:
    """Every clip once; rows that fill do not count."""
    rows = c.batch_size * c.grad_accum_steps
    for size in sorted({one.size for one in spoken}):
        members = [one for one in spoken if one.size == size]
        for first in range(0, len(members), rows):
            part = members[first : first + rows]
            yield batch_of([*part, *[part[0]] * (rows - len(part))], c, len(part), with_bert)


class ScaledAdam(torch.optim.Optimizer):
    """Adam whose updates are in proportion to the size of a weight, and which learns that size too. Updates
    are clipped at twice the median norm of the last thousand. All that changes from step to step is a tensor,
    so that a compiled step stays one program; weights of equal shape are one stack."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.95),
        clipping_scale: float = 2.0,
        clipping_period: int = 1000,
    ) -> None:
        super().__init__(params, {"lr": lr})
        self._betas, self._scale, self._period = betas, clipping_scale, clipping_period
        (group,) = self.param_groups
        shapes: dict[Any, list[Any]] = {}
        for parameter in group["params"]:
            shapes.setdefault(parameter.shape, []).append(parameter)
        self._stacks = list(shapes.values())
        with torch.no_grad():
            for members in self._stacks:
                p = torch.stack(members)
                self.state[members[0]] = {name: torch.zeros_like(p) for name in ("delta", "mean_square")}
                if members[0].numel() > 1:
                    rms = self._rms(p)
                    self.state[members[0]] |= {
                        "rms": rms,
                        "scale_square": torch.zeros_like(rms),
                        "scale_grads": torch.zeros((_SIZE_PERIOD, *rms.shape), device=p.device),
                    }
            head = self._stacks[0][0]
            zero = torch.zeros((), device=head.device)
            norms = torch.zeros(clipping_period, device=head.device)
            self.state[head] |= {"count": zero, "threshold": zero.clone(), "norms": norms}

    @staticmethod
    def _rms(p: torch.Tensor) -> torch.Tensor:
        return p.square().mean(tuple(range(1, p.ndim)), keepdim=True).sqrt()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        assert closure is None
        rate, head = self.param_groups[0]["lr"], self.state[self._stacks[0][0]]
        count = head["count"]
        stacks = [
            (members, torch.stack(members), torch.stack([each.grad for each in members]))
            for members in self._stacks
        ]
        clip = self._clipping(head, stacks)
        for members, p, grad in stacks:
            state = self.state[members[0]]
            state["delta"].mul_(self._betas[0])
            if members[0].numel() > 1:
                self._resize(state, p, grad * clip, rate, count)
                # The original clips only what sizes learn from.
                self._move(state, grad, rate * state["rms"].clamp(min=_MIN_RMS), count)
            else:
                self._move(state, grad, rate * _SCALAR_RATE, count)
                p = p.clamp(-_MAX_SCALAR, _MAX_SCALAR)
            for member, value in zip(members, p + state["delta"], strict=True):
                member.copy_(value)
        count.add_(1)

    def _clipping(self, head: dict[str, Any], stacks: Any) -> torch.Tensor:
        count, norms, period = head["count"], head["norms"], self._period
        sizes = [
            (grad * self.state[members[0]]["rms"] if members[0].numel() > 1 else grad).square().sum()
            for members, _, grad in stacks
        ]
        norm = torch.stack(sizes).sum().sqrt()
        here = torch.arange(period, device=norm.device) == count % period
        norms.copy_(torch.where(here & (count > 0), norm, norms))
        median = norms.sort().values[period // 4 * 2]
        due = (count > 0) & (count % period == 0)
        head["threshold"].copy_(torch.where(due, self._scale * median, head["threshold"]))
        return torch.where(count < period, 1.0, (head["threshold"] / (norm + 1e-20)).clamp(max=1.0))

    def _resize(self, state: dict[str, Any], p: Any, grad: Any, rate: Any, count: Any) -> None:
        """Every few steps a weight as a whole grows or shrinks."""
        axes, beta = tuple(range(1, p.ndim)), self._betas[1] ** _SIZE_PERIOD
        grads, rms, square = state["scale_grads"], state["rms"], state["scale_square"]
        places = torch.arange(_SIZE_PERIOD, device=p.device).view(-1, *[1] * p.ndim)
        now = (p * grad).sum(axes, keepdim=True)
        grads.copy_(torch.where(places == count % _SIZE_PERIOD, now, grads))
        measured = count % _SIZE_PERIOD == _SIZE_PERIOD - 1
        rms.copy_(torch.where(measured, self._rms(p), rms))
        new = square * beta + grads.square().mean(0) * (1 - beta)
        square.copy_(torch.where(measured, new, square))
        rounds = torch.floor((count + 1) / _SIZE_PERIOD)
        size_rate = rate * _SCALAR_RATE
        step = -size_rate * (1 - beta**rounds).sqrt() * grads.sum(0) / (square.sqrt() + _EPS)
        step = torch.where(rms < _MIN_RMS, 0.0, step)
        step = torch.where(rms > _MAX_RMS, -size_rate * _SIZE_PERIOD, step)
        state["delta"].add_(torch.where(measured, p * step * (1 - self._betas[0]), 0.0))

    def _move(self, state: dict[str, Any], grad: Any, rate: Any, count: Any) -> None:
        beta1, beta2 = self._betas
        square = state["mean_square"].mul_(beta2).add_(grad.square() * (1 - beta2))
        corrected = 1 - beta2 ** (count + 1)
        if grad[0].numel() > 1:
            corrected = torch.where(corrected < 0.99, corrected, 1.0)
        state["delta"].sub_(grad / ((square / corrected).sqrt() + _EPS) * rate * (1 - beta1))


#: icefall's constants: steps between two changes of size, their share of the rate, and limits.
_SIZE_PERIOD, _SCALAR_RATE, _EPS = 4, 0.1, 1e-8
_MIN_RMS, _MAX_RMS, _MAX_SCALAR = 1e-5, 3.0, 10.0


def loss_sum(model: Any, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cross-entropy, tokens among the three likeliest, and tokens, each summed over what counts; the end is a
    token."""
    logits, targets = model(*(batch[name] for name in ("x", "x_lens", "y", "y_lens", "bert")))
    counted = sequence_mask(batch["y_lens"] + 1, targets.shape[1]) * batch["counts"][:, None]
    logits = logits.float()
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    likely = (logits.topk(3).indices == targets[..., None]).any(-1)
    return (losses * counted).sum(), (likely * counted).sum(), counted.sum()


class FirstStageTrainer(Resumable):
    """Owns model and optimizer."""

    def __init__(self, config: FirstStageConfig, model: Text2SemanticDecoder, backend: Any) -> None:
        self.config, self.backend, self.steps_done = config, backend, 0
        self.peak = self.rate = config.learning_rate
        model.recompute = backend.recompute if config.remat else None
        self.model: Any = backend.prepare(model)
        self.optimizer = ScaledAdam(self.model.parameters(), config.learning_rate)
        set_learning_rate(backend, self.optimizer, self.rate)
        self._measure = backend.compile(self.measured, name="eval_step")
        backend.sync()

    def before_step(self) -> None:
        self.rate = self.peak * (1 if self.steps_done else FIRST_UPDATE)
        set_learning_rate(self.backend, self.optimizer, self.rate)

    @compiled_step
    def train_step(self, batch: Any) -> Any:
        """One update with a batch on the device; returns its mean loss, still on the device."""
        counted = ((batch["y_lens"] + 1) * batch["counts"]).sum()
        counted = self.backend.mean_over_processes(counted).clamp(min=1)  # type: ignore[attr-defined]

        def share_of_loss(part: dict[str, Any]) -> Any:
            with self.backend.precision(self.config.precision):
                return loss_sum(self.model, part)[0] / counted

        loss = backward_in_parts(share_of_loss, batch, self.config.grad_accum_steps)
        self.backend.optimizer_step(self.optimizer)  # type: ignore[attr-defined]
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    @torch.no_grad()
    def measured(self, batch: Any) -> Any:
        with self.backend.precision(self.config.precision):
            return loss_sum(self.model, batch)

    def evaluate(self, batches: Iterable[Any]) -> dict[str, float]:
        """Mean loss, and the share of tokens that are among the three likeliest, as the original counts."""
        self.model.eval()
        found = self.backend.to_host([self._measure(each) for each in self.backend.batches(batches)])
        loss, likely, count = (sum(float(row[place]) for row in found) for place in range(3))
        return {"held_out_loss": loss / count, "held_out_top3": likely / count}

    def state(self) -> dict[str, Any]:
        return super().state() | {"peak": self.peak}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.peak = float(state["peak"])


def export_first_stage(model: Any, c: FirstStageConfig, file: str | Path, epoch: int) -> None:
    """Writes a checkpoint as the original does: half precision, names with the prefix `model.`."""
    state = {f"model.{name}": value.detach().cpu().half() for name, value in model.state_dict().items()}
    config = {"model": c.sizes, "data": {"max_sec": c.max_sec}, "train": asdict(c)}
    save_container({"weight": state, "config": config, "info": f"GPT-e{epoch}"}, file)


def start_first_stage(c: FirstStageConfig, pretrained: str) -> tuple[FirstStageConfig, Text2SemanticDecoder]:
    """A model of that checkpoint, and settings of its sizes; random weights without one."""
    if pretrained:
        from tpulab_recipes.gpt_sovits.s1 import load_first_stage

        model = load_first_stage(pretrained)
        embedding, heads = model.ar_predict_layer.weight, model.layers[0].self_attn.num_heads
        phonemes = model.ar_text_embedding.word_embeddings.num_embeddings
        sizes = {"hidden_dim": embedding.shape[1], "head": heads, "n_layer": len(model.layers)}
        sizes |= {"codebook": model.eos, "bert_channels": model.bert_proj.in_features}
        return replace(c, version="v1" if phonemes < 732 else "v2", **sizes), model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(c.seed)
        return c, Text2SemanticDecoder(**c.sizes, bert_channels=c.bert_channels)
