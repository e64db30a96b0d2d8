"""The tokenizer: of a pretrained model, or WordPiece trained on the sentences at hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tpulab_recipes.intents.data import DataError


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A lower-casing WordPiece tokenizer like BERT's, with at most `vocabulary` entries."""
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(texts, vocab_size=vocabulary, min_frequency=2, show_progress=False)
    ends = [(token, trained.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    trained._tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer,
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

    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise unreachable(model) from error


def unreachable(model: str) -> DataError:
    return DataError(
        f'The model "{model}" is neither a folder here nor reachable on the hub. Download it where there is '
        f"a network "
        "(`hf download NAME --local-dir FOLDER`), copy the folder here and name it; or leave the setting "
        "empty for the "
        "small model of the lesson."
    )
