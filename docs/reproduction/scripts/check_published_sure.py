"""Do the published SURE variants pass the checks that `retrokit build-sure` makes without a language model?

    python docs/reproduction/scripts/check_published_sure.py FOLDER [--show KIND] [--limit N]

FOLDER is a SURE folder, the release's or one that build-sure wrote. Prints the share that passes by kind and cause, or
with --show what of a kind is rejected, beside its passage, for a person to say who is right.

The folders differ from what build-sure checks in two ways. Key sentences are there after the substitution of pronouns,
which build-sure checks before it. And nobody has named keywords: here they are the query's runs of words between
stop words, which are more than a model names.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from retrokit.data.sure import SureData, read_sure
from retrokit.llm.answers import Rejected, holds_run, words_of
from retrokit.sure import checks
from retrokit.sure.statistics import sentences_of


def main() -> None:
    """Print the table, or the rejected variants of a kind."""
    parser = argparse.ArgumentParser(description="Check the variants of a SURE folder without a language model.")
    parser.add_argument("folder")
    parser.add_argument("--show", metavar="KIND", help="print the rejected variants of this kind")
    parser.add_argument("--limit", type=int, default=20, help="with --show: how many (default 20)")
    arguments = parser.parse_args()
    data = read_sure(arguments.folder)
    checked = list(check_all(data))
    if arguments.show:
        rejected = [one for one in checked if one[0] == arguments.show and one[2] is not None]
        for kind, query, reason in rejected[: arguments.limit]:
            show(data, kind, query, reason)
        return
    print("| kind | variants | pass | rejected for |\n|---|---:|---:|---|")
    for kind in dict.fromkeys(kind for kind, _, _ in checked):
        causes = [reason.cause if reason else None for found, _, reason in checked if found == kind]
        counts = Counter(cause for cause in causes if cause)
        lost = ", ".join(f"{cause} {count}" for cause, count in counts.most_common())
        print(f"| {kind} | {len(causes):,} | {100 * causes.count(None) / len(causes):.1f}% | {lost} |")


def check_all(data: SureData) -> Iterator[tuple[str, str, Rejected | None]]:
    """Each variant's kind and query, and why it is rejected, if it is."""
    for query in data.testbeds.get("precision", []):
        yield "key-sentences", query, rejection(check_key_sentences, data, query)
        yield "key-sentences-with-noise", query, rejection(check_noise, data, query)
    for query in data.testbeds.get("abstraction", []):
        yield "summary", query, rejection(check_summary, data, query)
        yield "expansion", query, rejection(check_expansion, data, query)
    for query in data.testbeds.get("equivalence", []):
        yield "paraphrase", query, rejection(check_paraphrase, data, query)


def rejection(check: Callable[[SureData, str], None], data: SureData, query: str) -> Rejected | None:
    """What ``check`` says of the query's variant."""
    try:
        check(data, query)
    except Rejected as reason:
        return reason
    return None


def texts(data: SureData, query: str, *kinds: str) -> list[str]:
    """The variants of those kinds, and the passage as the last one."""
    passage = data.originals[query]
    return [*(data.variants[kind][passage] for kind in kinds), data.passages[passage]]


def check_key_sentences(data: SureData, query: str) -> None:
    """As build-sure checks key sentences."""
    sentences, passage = texts(data, query, "key-sentences")
    checks.check_key_sentences(sentences_of(sentences, "en"), passage)


def check_noise(data: SureData, query: str) -> None:
    """As build-sure checks the two sentences: what is before the key sentences and after them."""
    sentences, mixed, _ = texts(data, query, "key-sentences", "key-sentences-with-noise")
    before, found, after = mixed.partition(sentences.strip())
    if not found:
        raise Rejected("not_verbatim", "the key sentences do not stand in it")
    noise = [sentence for part in (before, after) for sentence in sentences_of(part, "en")]
    if len(noise) < 2:
        raise Rejected("off_format", f"{len(noise)} sentences beside the key sentences")
    checks.check_noise(noise, sentences_of(sentences, "en"))


def check_summary(data: SureData, query: str) -> None:
    """As build-sure checks summaries."""
    checks.check_summary(*texts(data, query, "summary"))


def check_expansion(data: SureData, query: str) -> None:
    """As build-sure checks expansions."""
    checks.check_expansion(*texts(data, query, "expansion"))


def check_paraphrase(data: SureData, query: str) -> None:
    """As build-sure checks paraphrases, with the keywords that the passage has."""
    paraphrase, passage = texts(data, query, "paraphrase")
    words = words_of(passage)
    keywords = [keyword for keyword in content_runs(data.queries[query]) if holds_run(words, words_of(keyword))]
    checks.check_paraphrase(paraphrase, passage, keywords)


def content_runs(query: str) -> list[str]:
    """The query's runs of words that are no stop words.

    >>> content_runs("what is the legal age in New York?")
    ['legal age', 'new york']
    """
    runs: list[list[str]] = [[]]
    for word in words_of(query):
        if word in ENGLISH_STOP_WORDS or len(word) < 2:
            runs.append([])
        else:
            runs[-1].append(word)
    return [" ".join(run) for run in runs if run]


def show(data: SureData, kind: str, query: str, reason: Rejected) -> None:
    """Print one rejected variant beside its passage."""
    variant, passage = texts(data, query, kind)
    print(
        f"--- {query}: {reason.cause}: {reason}\nquery:   {data.queries[query]}\npassage: {passage}\nvariant: {variant}"
    )


if __name__ == "__main__":
    main()
