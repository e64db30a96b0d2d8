"""The tokenizer: of a pretrained model, or WordPiece trained on the sentences at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from tpulab_recipes.common.errors import DataError, RecipeError
from tpulab_recipes.intents.config import BERT_BASE
from tpulab_recipes.torch_training.pretrained import loaded

#: Whose configuration `bert-base` has.
PUBLISHED = "bert-base-uncased"


def choose_tokenizer(
    model: str, texts: Iterable[str], vocabulary: int, state: Mapping[str, Any] | None = None
) -> Any:
    """The tokenizer of a pretrained model, of a checkpoint's `state`, or else one trained on `texts`.
    `bert-base` uses the tokenizer of bert-base-uncased where it is available (see `describe_vocabulary`).

    WordPiece breaks ties at random: trained again, even on the same sentences, it gives other numbers, which
    mean nothing to a model that has learned the first ones. So a checkpoint holds its own (`to_text`).

    Raises:
        ConfigError, CheckpointError: the model is unavailable.
        DataError: an older version wrote the checkpoint, without its tokenizer.
    """
    if model not in ("", BERT_BASE):
        return load_tokenizer(model)
    if state is None:
        with suppress(RecipeError):
            if model == BERT_BASE:
                return load_tokenizer(PUBLISHED)
        return train_tokenizer(texts, vocabulary)
    if "tokenizer" not in state:
        raise DataError(
            "This checkpoint does not hold the tokenizer of its training, so no training can resume from it; "
            "start again in another folder."
        )
    from tokenizers import Tokenizer

    return _of_transformers(Tokenizer.from_str(state["tokenizer"]))


def describe_vocabulary(model: str, tokenizer: Any) -> str:
    """The source of the vocabulary, in words."""
    from transformers import BertConfig

    if model not in ("", BERT_BASE):
        return f"from {model}"
    if len(tokenizer) == BertConfig().vocab_size:
        return f"from {PUBLISHED}"
    missing = f"; {PUBLISHED} is neither on the hub nor a folder here" if model else ""
    return f"trained on these sentences{missing}"


def to_text(tokenizer: Any) -> str:
    """A tokenizer as a checkpoint holds it, under the name `tokenizer`."""
    return str(tokenizer.backend_tokenizer.to_str())


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A lower-casing WordPiece tokenizer like BERT's, with at most `vocabulary` entries."""
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.processors import TemplateProcessing

    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(texts, vocab_size=vocabulary, min_frequency=2, show_progress=False)
    ends = [(token, trained.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    trained._tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return _of_transformers(trained._tokenizer)


def _of_transformers(tokenizer: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        unk_token="[UNK]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
    )


def load_tokenizer(model: str) -> Any:
    """The tokenizer of a pretrained model, by folder or name on the hub."""
    from transformers import AutoTokenizer

    return loaded("model", model, AutoTokenizer.from_pretrained)
