"""Which setting explains a published figure: each known cause comes first, and what does nothing is seen."""

import json
import random

import pytest

import retrokit
from retrokit.core.errors import UsageError
from retrokit.extensions.studies.why import ChangedSetting, Why, why_this_figure
from retrokit.metrics.significance import PairedTest
from tests.models import WORDS

METRIC = "ndcg@10"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Queries of some words of a document, which has a title and more words than a short model reads; every third query
    has the id of a document."""
    folder, rng = tmp_path_factory.mktemp("why"), random.Random(1)
    corpus, queries, qrels = [], [], ["query-id\tcorpus-id\tscore"]
    for number in range(60):
        title, text = rng.choices(WORDS, k=3), rng.choices(WORDS, k=24)
        corpus.append({"_id": f"d{number}", "title": " ".join(title), "text": " ".join(text)})
        if number < 40:
            has_id = number % 3 == 0 and number > 0  # of an earlier document, which it resembles
            query = f"d{number - 1}" if has_id else f"q{number}"
            words = rng.sample([*title, *text], k=9) + (corpus[-2]["text"].split()[:14] if has_id else [])
            queries.append({"_id": query, "text": " ".join(words)})
            qrels.append(f"{query}\td{number}\t1")
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("\n".join(qrels) + "\n")
    return f"beir:{folder}"


def figure(model: str, task: str, **options: str) -> float:
    given = {name: [value] if name == "sim" else value for name, value in options.items()}
    (result,) = retrokit.evaluate([model], [task], metrics=[METRIC], **given).results
    return float(result.metrics[METRIC])


@pytest.mark.parametrize(
    ("cause", "spoiled", "on", "published"),
    [
        ("pooling", "{bert},pooling=cls", "", {}),
        ("query prompt", '{bert},query_prompt="the old dog hates "', "", {}),
        ("document prompt", '{bert},document_prompt="the old dog hates "', "", {}),
        ("prompts", "{bert}", "", {"model": '{bert},query_prompt="query: ",document_prompt="passage: "'}),
        ("maximum length", "{llama},max_length=5", "", {"model": "{llama},max_length=64"}),
        ("truncation side", "{bert},max_length=16,truncation=left", "", {"model": "{bert},max_length=16"}),
        ("end token", "{bert},end_token=false", "", {}),
        ("titles", "{bert}", ",titles=false", {}),
        ("documents with the query's id", "{bert}", "", {"on": ",ignore_identical_ids=true"}),
        ("similarity", "{bert}", "", {"sim": "dot"}),
    ],
)
def test_the_cause_comes_first(tiny_bert, tiny_llama, task, cause, spoiled, on, published):
    named = {"bert": tiny_bert, "llama": tiny_llama}
    right = {"model": "{bert}", "on": "", **published}
    model, where = right.pop("model").format(**named), task + right.pop("on")
    sought = figure(model, where, **right)
    spoiled = spoiled.format(**named)
    why = why_this_figure(spoiled, task + on, f"{METRIC}={sought:.6f}", sample=40)
    assert why.present == figure(spoiled, task + on)
    assert abs(why.present - sought) > 1e-5  # it was spoiled
    first = why.changes[0]
    assert (first.setting, why.explains(first)) == (cause, True)
    assert first.figure == pytest.approx(sought, abs=1e-6)
    assert first.command.startswith("retrokit eval ")
    assert first.command in why.sheets()[0].notes


@pytest.mark.parametrize(
    ("published", "problem"),
    [
        ("0.5", "`published=` 0.5: expected METRIC=VALUE"),
        ("ndcg@10=good", "`published=` ndcg@10=good: expected METRIC=VALUE"),
        ("nndcg@10=0.5", "unknown metric 'nndcg@10'"),
        ("ndcg@10=64.5", "`published=` ndcg@10=64.5: expected a share from 0 to 1"),
    ],
)
def test_bad_figures_are_one_line(tiny_bert, task, published, problem):
    with pytest.raises(UsageError) as caught:
        why_this_figure(str(tiny_bert), task, published)
    assert problem in str(caught.value)


def test_the_printed_table_by_hand():
    test = PairedTest(queries=4, difference=0.25, p=0.01, low=0.125, high=0.375)
    none = PairedTest(queries=4, difference=0.0, p=1.0, low=0.0, high=0.0)
    changes = [
        ChangedSetting("pooling", "cls", "retrokit eval a", test, 0.02, test, 0.04, 0.7502),
        ChangedSetting("titles", "left out", "retrokit eval b", none),
    ]
    (sheet,) = Why(METRIC, 0.75, 0.5, 0.0003, changes, ["end token: no tokenizer"]).sheets()
    assert sheet.title == "ndcg@10: 0.5000 here, 0.75 published"
    assert [["\n".join(cell) for cell in row] for row in sheet.rows] == [
        ["pooling", "cls", "+0.2500\np=0.02", "+0.2500\np=0.04", "0.7502 ="],
        ["titles", "left out", "none", "", ""],
    ]
    assert sheet.notes == (
        "=: within 0.0003 of the published figure, by rounding and precision",
        "differences from the present setup; p by paired t-tests with Holm's correction",
        "One change gives the published figure:",
        "retrokit eval a",
        "left out: end token: no tokenizer",
    )
