"""Pretrain a small Transformer by masked language modelling: a start that no sentence pair has adapted.

    python docs/reproduction/scripts/masked_language_model.py SHAPE OUT TEXTS.jsonl... [--layers 4] [--seed 0]

SHAPE is a folder of BERT's shape and tokenizer (studies_data.py writes data/small). TEXTS are JSON lines of "text",
with or without "title". They follow each other in blocks of 128 tokens, of which 15% are to be guessed, as BERT was
trained. Takes a GPU if there is one: 3,000 steps of 256 blocks, which a processor takes hours for.
"""

import argparse
import sys
from pathlib import Path

import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    get_linear_schedule_with_warmup,
)

from retrokit.core.errors import DataError, RetrokitError, first_line
from retrokit.data.jsonl import read_jsonl

LENGTH = 128
SHAPE = "expected a folder with config.json and a tokenizer, as studies_data.py writes data/small"


def train(options: argparse.Namespace) -> None:
    """Write the encoder, without the layer that guesses, in half precision.

    Raises:
        RetrokitError: SHAPE or TEXTS are missing or damaged, or the texts are too short; nothing is written.
    """
    if (options.out / "config.json").exists():
        print(f"{options.out} is there already")
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    if not (options.shape / "config.json").is_file():
        raise DataError(options.shape, SHAPE)
    try:
        tokenizer = AutoTokenizer.from_pretrained(options.shape)
        config = BertConfig.from_pretrained(options.shape, num_hidden_layers=options.layers)
    except (OSError, ValueError) as error:
        raise DataError(options.shape, f"{first_line(error)}; {SHAPE}") from error
    blocks = read_blocks(tokenizer, options.texts)
    model = BertForMaskedLM(config).to(device)
    print(f"{len(blocks):,} blocks of {LENGTH} tokens, {sum(value.numel() for value in model.parameters()):,} weights")
    masked = DataCollatorForLanguageModeling(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01, fused=device == "cuda")
    schedule = get_linear_schedule_with_warmup(optimizer, options.steps // 10, options.steps)
    for step in range(options.steps):
        drawn = blocks[torch.randint(len(blocks), (options.batch,))]
        ids, labels = masked.torch_mask_tokens(drawn.clone(), special_tokens_mask=torch.zeros_like(drawn))
        ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        guessed = labels != -100
        with torch.autocast(device, torch.bfloat16):
            states = model.bert(ids)[0][guessed]
            loss = torch.nn.functional.cross_entropy(model.cls(states).float(), labels[guessed])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 500 == 0 or step == options.steps - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    tokenizer.save_pretrained(options.out)
    model.bert.half().save_pretrained(options.out, max_shard_size="15MB")


def read_blocks(tokenizer: AutoTokenizer, paths: list[Path]) -> torch.Tensor:
    """All texts one after another, int64 ``[n, 128]``."""
    texts = []
    for path in paths:
        for _, row in read_jsonl(path, 'JSON lines of "text"'):
            texts.append(f"{row.text('title', '')} {row.text('text')}".strip())
    tokens = [token for ids in tokenizer(texts)["input_ids"] for token in ids]
    count = len(tokens) // LENGTH
    if not count:
        raise DataError(", ".join(map(str, paths)), f"{len(tokens)} tokens; expected at least {LENGTH}")
    return torch.tensor(tokens[: count * LENGTH]).view(count, LENGTH)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", type=Path, metavar="SHAPE", help="folder of the shape and the tokenizer")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument("texts", type=Path, nargs="+", metavar="TEXTS.jsonl", help='JSON lines of "text"')
    parser.add_argument("--layers", type=int, default=4, help="Transformer layers (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3000, help="optimizer steps (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=256, help="blocks in a step (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=5e-4, help="highest learning rate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and masks (default: %(default)s)")
    try:
        train(parser.parse_args(arguments))
    except RetrokitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
