"""Models with the classes of the published ones and tiny random weights, in folders laid out like theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from diffusers import AutoencoderKL

CAPTIONS = ["a large red circle", "", "red cross"]
CLIP_LENGTH, CLIP_WIDTH, CLIP_IMAGE_WIDTH = 9, 24, 12
T5_LENGTH, T5_WIDTH = 7, 16
BERT_LENGTH, BERT_WIDTH = 6, 8


def write_all(folder: Path) -> None:
    """`clip`, `t5`, `bert` and `sd`, a pipeline whose VAE is in a folder of its own."""
    torch.manual_seed(0)
    _write_clip(folder / "clip")
    _write_t5(folder / "t5")
    _write_bert(folder / "bert")
    four = 4
    vae = AutoencoderKL(
        block_out_channels=(8,) * four,
        down_block_types=("DownEncoderBlock2D",) * four,
        up_block_types=("UpDecoderBlock2D",) * four,
        latent_channels=4,
        norm_num_groups=4,
        # Not the usual values, which code may have built in.
        scaling_factor=0.5,
        shift_factor=0.25,
    )
    _shake(vae).save_pretrained(folder / "sd" / "vae")


def _write_clip(folder: Path) -> None:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = [*letters, *(f"{letter}</w>" for letter in letters), "re", "red</w>"]
    vocabulary = {word: number for number, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}
    merges = [("r", "e"), ("re", "d</w>")]
    tokenizer: Any = transformers.CLIPTokenizer(vocabulary, merges, model_max_length=CLIP_LENGTH)
    tokenizer.save_pretrained(folder)
    layers = {"intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={
            "vocab_size": len(vocabulary),
            "hidden_size": CLIP_WIDTH,
            "max_position_embeddings": CLIP_LENGTH,
            "bos_token_id": vocabulary["<|startoftext|>"],
            "eos_token_id": vocabulary["<|endoftext|>"],
            "pad_token_id": vocabulary["<|endoftext|>"],
            **layers,
        },
        vision_config={"hidden_size": 16, "image_size": 32, "patch_size": 8, **layers},
        projection_dim=CLIP_IMAGE_WIDTH,
    )
    _shake(transformers.CLIPModel(config)).save_pretrained(folder)
    side = {"height": 32, "width": 32}
    transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=side).save_pretrained(folder)


def _write_t5(folder: Path) -> None:
    """With a SentencePiece model and weights in halves, as T5's own repositories have them."""
    import sentencepiece

    folder.mkdir(parents=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a large red circle", "a small blue cross", "red green blue"] * 20),
        model_prefix=str(folder / "spiece"),
        vocab_size=32,
        **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
        hard_vocab_limit=False,
        minloglevel=2,
    )
    tokens = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", **tokens}))
    config = transformers.T5Config(
        vocab_size=200, d_model=T5_WIDTH, d_kv=8, d_ff=32, num_layers=2, num_heads=2
    )
    _shake(transformers.T5EncoderModel(config)).half().save_pretrained(folder)


def _write_bert(folder: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "large", "red", "circle", "cross"]
    tokenizer: Any = transformers.BertTokenizer(vocab={word: number for number, word in enumerate(words)})
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=BERT_WIDTH,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
    )
    _shake(transformers.BertModel(config)).save_pretrained(folder)


def _shake(model: Any) -> Any:
    """Random everywhere: what starts at zero or one would hide mistakes."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model.eval()


def write_inception(file: Path) -> None:
    """Inception's weights, random: as large as the published file."""
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

    class Unloaded(FeatureExtractorInceptionV3):
        def load_state_dict(self, *_: Any, **__: Any) -> None: ...

    torch.manual_seed(1)
    torch.save({}, file)
    torch.save(Unloaded("random", ["2048"], str(file)).state_dict(), file)
