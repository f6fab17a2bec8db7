"""Tiny models that the tests make: real architectures, a few thousand weights, no network."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    CLIPConfig,
    CLIPImageProcessor,
    CLIPModel,
    CLIPProcessor,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

WORDS = (
    "the a of to in and is cat dog bird fish runs sleeps eats flies red blue green small large house tree river "
    "mountain day night what which where how who sees finds likes hates under over near far one two three four"
).split()


VOCABULARY = 200


def sentences(count: int, seed: int = 0) -> list[str]:
    """Different word sequences of 3 to 12 words."""
    generator = torch.Generator().manual_seed(seed)
    made: list[str] = []
    while len(made) < count:
        length = int(torch.randint(3, 13, (1,), generator=generator))
        text = " ".join(WORDS[i] for i in torch.randint(len(WORDS), (length,), generator=generator).tolist())
        if text not in made:
            made.append(text)
    return made


def make_bert(folder: Path, dimension: int = 16, layers: int = 2, dropout: float = 0.1) -> Path:
    """A BERT checkpoint with a word-piece tokenizer."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # written out, for a trained vocabulary is numbered differently by every process
    letters = sorted(set("".join(WORDS)))
    pieces = [*special, *sorted(WORDS), *letters, *(f"##{letter}" for letter in letters)]
    pieces += [f"[unused{number}]" for number in range(VOCABULARY)]
    vocabulary = {piece: number for number, piece in enumerate(list(dict.fromkeys(pieces))[:VOCABULARY])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(special)
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names).save_pretrained(folder)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=dimension,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * dimension,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        # Larger than BERT's own, so that different texts get clearly different embeddings.
        config.initializer_range = 0.3
        BertModel(config).save_pretrained(folder)
    return folder


def make_clip(folder: Path, dimension: int = 16) -> Path:
    """Two towers, of texts and of images of 24 × 24 pixels, with their processor."""
    make_bert(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, model_max_length=32)
    ids = {"bos_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id, "pad_token_id": 0}
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = CLIPConfig(
        text_config={"vocab_size": len(tokenizer), "max_position_embeddings": 32, **ids, **size},
        vision_config={"image_size": 24, "patch_size": 8, **size},
        projection_dim=dimension,
        initializer_factor=5.0,  # so that different items get clearly different embeddings
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        CLIPModel(config).save_pretrained(folder)
    pixels = CLIPImageProcessor(size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24})
    CLIPProcessor(pixels, tokenizer).save_pretrained(folder)
    return folder


def make_llama(folder: Path, dimension: int = 16) -> Path:
    """A decoder checkpoint whose tokenizer adds a start token, and neither an end nor a padding token."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(special_tokens=["<unk>", "<s>", "</s>"], vocab_size=300)
    tokenizer.train_from_iterator(sentences(300, seed=98), trainer)
    start = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", model_max_length=64
    ).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=dimension,
        intermediate_size=2 * dimension,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        bos_token_id=start,
        eos_token_id=tokenizer.token_to_id("</s>"),
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def make_t5(folder: Path, bert: Path) -> Path:
    """A sequence-to-sequence checkpoint with the tokenizer of a BERT of :func:`make_bert`, which allows 64 tokens."""
    tokenizer = AutoTokenizer.from_pretrained(bert)
    tokenizer.save_pretrained(folder)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)  # so that what is read changes what is written
        model.save_pretrained(folder)
    return folder
