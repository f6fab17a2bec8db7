"""Are a language model's summaries like real texts, word by word? (SURE, Table 3.) Prints Markdown.

python docs/reproduction/scripts/sure_texts.py SURE/msmarco

The paper does not say what counts as a word, so the first table has three ways. A type-token ratio falls as a text
grows. So the second table compares equal numbers of words: means of ten groups of passages, and 95% over them (t).
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.stats import entropy, ttest_rel

from retrokit.data.sure import ORIGINAL, read_sure
from retrokit.llm.answers import words_of
from retrokit.sure.statistics import sentences_of

GROUPS = 10
WORDS = 4_500
"""Of a group: each kind has as many."""
REAL, GENERATED = (ORIGINAL, "key-sentences"), "summary"
COUNTED_AS = {
    "words": words_of,
    "words and marks": lambda text: re.findall(r"\w+|[^\w\s]", text.lower()),
    "white space": str.split,
}


def lexical(words: Sequence[str]) -> tuple[float, float]:
    """Type-token ratio, and entropy in bits."""
    counts = Counter(words)
    return len(counts) / len(words), float(entropy(list(counts.values()), base=2))


def main(folder: str) -> None:
    """Print both tables."""
    data = read_sure(folder)
    texts = {ORIGINAL: data.passages, **{kind: data.variants[kind] for kind in ("key-sentences", GENERATED)}}
    print("| texts | counted as | TTR | entropy | sentence, mean | longest |\n|---|---|---:|---:|---:|---:|")
    for kind in texts:
        sentences = [one for text in texts[kind].values() for one in sentences_of(text, "en")]
        for name, split in COUNTED_AS.items():
            ratio, bits = lexical([word for text in texts[kind].values() for word in split(text)])
            lengths = [len(split(sentence)) for sentence in sentences]
            print(f"| {kind} | {name} | {ratio:.4f} | {bits:.4f} | {np.mean(lengths):.1f} | {max(lengths)} |")
    measures = ("TTR", "entropy", "SD of sentences over their mean")
    values = {kind: np.zeros((GROUPS, len(measures))) for kind in texts}
    for group in range(GROUPS):
        for kind in texts:
            chosen = [texts[kind][passage] for passage in list(data.passages)[group::GROUPS]]
            words = [word for text in chosen for word in words_of(text)]
            lengths = [len(words_of(sentence)) for text in chosen for sentence in sentences_of(text, "en")]
            values[kind][group] = *lexical(words[:WORDS]), np.std(lengths) / np.mean(lengths)
    print(f"\n| {WORDS:,} words | {' | '.join(texts)} | summary less |  |\n|---|---:|---:|---:|---|---|")
    for column, measure in enumerate(measures):
        means = [f"{values[kind][:, column].mean():.3f}" for kind in texts]
        for kind in REAL:
            test = ttest_rel(values[GENERATED][:, column], values[kind][:, column])
            low, high = test.confidence_interval()
            difference = values[GENERATED][:, column].mean() - values[kind][:, column].mean()
            print(f"| {measure} | {' | '.join(means)} | {kind} | {difference:+.3f} ({low:+.3f} to {high:+.3f}) |")


if __name__ == "__main__":
    main(sys.argv[1])
