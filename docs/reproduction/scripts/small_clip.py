"""Two small towers with fresh weights, of texts and of images: a checkpoint that ``clip:OUT`` opens.

    python docs/reproduction/scripts/small_clip.py PAIRS.jsonl OUT

The vocabulary is the words of the pairs' texts, and the letters of all others. ``scratch:OUT,seed=1`` gives the same
towers other weights.
"""

import json
import re
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, PreTrainedTokenizerFast

TOWER = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS, PIXELS, PATCH, DIMENSIONS = 32, 32, 8, 64
START, END, UNKNOWN = "<start>", "<end>", "<unknown>"


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    """Words of ``texts`` in small letters, digits one by one, and letters for words that are not among them."""
    words = sorted({word for text in texts for word in re.findall(r"[^\W\d_]+|\d|[^\w\s]", text.lower())})
    letters = sorted({letter for word in words for letter in word})
    pieces = dict.fromkeys([START, END, UNKNOWN, *words, *letters, *(f"##{letter}" for letter in letters)])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token=UNKNOWN))
    made.normalizer = normalizers.Lowercase()
    split = [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    made.pre_tokenizer = pre_tokenizers.Sequence(split)
    ends = [(START, vocabulary[START]), (END, vocabulary[END])]
    made.post_processor = processors.TemplateProcessing(single=f"{START} $A {END}", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=START,
        eos_token=END,
        pad_token=END,
        unk_token=UNKNOWN,
        model_max_length=TOKENS,
    )


def main(pairs: Path, folder: Path) -> None:
    """Write the checkpoint."""
    rows = [json.loads(line) for line in pairs.read_text(encoding="utf-8").splitlines()]
    tokenizer = tokenizer_of([value for row in rows for value in row.values() if isinstance(value, str)])
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    config = CLIPConfig(
        text_config={"vocab_size": len(tokenizer), "max_position_embeddings": TOKENS, **ids, **TOWER},
        vision_config={"image_size": PIXELS, "patch_size": PATCH, **TOWER},
        projection_dim=DIMENSIONS,
    )
    torch.manual_seed(0)
    CLIPModel(config).save_pretrained(folder)
    side = {"height": PIXELS, "width": PIXELS}
    CLIPProcessor(CLIPImageProcessor(size=side, crop_size=side), tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
