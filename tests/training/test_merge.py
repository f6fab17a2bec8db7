"""Averages of encoders, number by number against a computation by hand, and what cannot be averaged."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

import retrokit
from retrokit import cli, encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.close import assert_rounded
from tests.models import make_bert, sentences


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    texts = sentences(32)
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    write_jsonl(path, [{"anchor": a, "positive": b} for a, b in zip(texts[:16], texts[16:], strict=True)])
    return path


@pytest.fixture(scope="module")
def runs(tiny_bert, pairs, tmp_path_factory) -> list[Path]:
    """Three runs of one encoder, which learn γ."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        options = {"sim": "learn", "lr": 1e-2, "sim_lr": 0.1, "steps": 4, "batch_size": 8, "device": "cpu"}
        finetune(FinetuneConfig(str(tiny_bert), [str(pairs)], str(folder / f"run{seed}"), seed=seed, **options))
    return [folder / f"run{seed}" for seed in range(3)]


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return retrokit.encoder(str(folder)).to_train().model.state_dict()


def gammas(folder: Path) -> dict[str, torch.Tensor]:
    return retrokit.encoder(str(folder)).similarity.state_dict()


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ({}, (1 / 3, 1 / 3, 1 / 3)),
        ({"weights": (2, 1, 1)}, (0.5, 0.25, 0.25)),
        ({"weights": (1, 0.5, -0.5), "as_given": True}, (1, 0.5, -0.5)),
        ({"weights": (1, 2, -2)}, (1, 2, -2)),
    ],
)
def test_every_weight_is_the_average(runs, tmp_path, options, shares):
    made = retrokit.merge([*map(str, runs)], str(tmp_path / "soup"), **options)
    assert made.shares == [(str(run), pytest.approx(share)) for run, share in zip(runs, shares, strict=True)]
    for found_of in (weights_of, gammas):
        parts, found = [found_of(run) for run in runs], found_of(tmp_path / "soup")
        for name, value in found.items():
            if value.is_floating_point():
                terms = [share * part[name].double() for share, part in zip(shares, parts, strict=True)]
                assert value.dtype == parts[0][name].dtype
                assert_rounded(value, sum(terms).float(), size=float(torch.stack(terms).abs().sum(0).max()))
    assert "query_gamma_logit" in gammas(tmp_path / "soup")
    assert (weights_of(tmp_path / "soup")["0.model.encoder.layer.0.output.dense.weight"] != weights_of(runs[0])[
        "0.model.encoder.layer.0.output.dense.weight"
    ]).any()  # fmt: skip


def test_it_is_an_encoder_like_any_other(runs, tmp_path, capsys):
    out = tmp_path / "soup"
    words = ["merge", *map(str, runs[:2]), "--weights", "3,1", "-o", str(out)]
    assert cli.run(words) == 0
    assert f"{out}: 0.75 × {runs[0]}, 0.25 × {runs[1]}; similarity learn" in capsys.readouterr().err
    encoder = retrokit.load(str(out))
    plain = SentenceTransformer(str(out), device="cpu", trust_remote_code=True)
    raw = torch.from_numpy(encoder.embed(sentences(4), "query", "fp32"))
    assert_rounded(plain.encode_query(sentences(4)), encoder.similarity.prepare(raw, "query").detach().numpy())
    card = (out / "README.md").read_text()
    assert f"| `{runs[0]}` | 0.75 |" in card
    assert "Scores with `learn` (gamma_query = " in card
    described = json.loads((out / "retrokit.json").read_text())
    assert [(one["encoder"], one["counts"]) for one in described["merged"]] == [
        (str(runs[0]), 0.75),
        (str(runs[1]), 0.25),
    ]
    assert described["merged"][0]["fingerprint"] == retrokit.encoder(str(runs[0])).fingerprint()
    again = tmp_path / "again"
    assert cli.run(["merge", str(out), str(out), "-o", str(again), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["similarity"] == "learn"
    same = retrokit.load(str(again)).embed(sentences(4), "query", "fp32")
    assert_rounded(same, encoder.embed(sentences(4), "query", "fp32"))
    assert {path.name for path in tmp_path.iterdir()} == {"soup", "again"}


def test_tables_and_adapters_are_averaged(tiny_bert, pairs, tmp_path):
    retrokit.merge(["static:8", "static:8,seed=1"], str(tmp_path / "table"), weights=(1, 3))
    tables = [retrokit.encoder(spec).embed(["a cat"], "query") for spec in ("static:8", "static:8,seed=1")]
    assert_rounded(
        retrokit.load(str(tmp_path / "table")).embed(["a cat"], "query"), 0.25 * tables[0] + 0.75 * tables[1]
    )
    options = {"lora": 2, "lr": 1e-2, "steps": 2, "batch_size": 8, "device": "cpu"}
    finetune(FinetuneConfig(str(tiny_bert), [str(pairs)], str(tmp_path / "adapter"), **options))
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    retrokit.merge([str(tiny_bert), str(tmp_path / "adapter")], str(tmp_path / "half"))
    parts = [weights_of(folder) for folder in (tiny_bert, tmp_path / "adapter")]
    for name, value in weights_of(tmp_path / "half").items():
        assert_rounded(value, (parts[0][name] + parts[1][name]) / 2)


def test_types_are_kept_and_sums_are_float32(tiny_bert, tmp_path):
    for name, sign in (("a", 1), ("b", -1)):
        copy_of(tiny_bert, tmp_path / name, lambda value: (value + sign * 2**-7 * value).bfloat16())  # noqa: B023
    retrokit.merge([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "same"))
    parts = [load_file(tmp_path / name / "model.safetensors") for name in ("a", "b")]
    found = load_file(tmp_path / "same" / "model.safetensors")
    assert {value.dtype for value in found.values()} == {torch.bfloat16}
    for name, value in found.items():
        expected = (parts[0][name].float() * 0.5 + parts[1][name].float() * 0.5).bfloat16()
        assert torch.equal(value, expected)
    retrokit.merge([str(tmp_path / "a"), str(tiny_bert)], str(tmp_path / "mixed"))
    assert {value.dtype for value in load_file(tmp_path / "mixed" / "model.safetensors").values()} == {torch.float32}


def copy_of(encoder: Path, folder: Path, change=lambda value: value) -> Path:
    shutil.copytree(encoder, folder)
    weights = {name: change(value).contiguous() for name, value in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["dtype"] = str(next(iter(weights.values())).dtype).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def as_sentence_transformer(bert: Path, folder: Path, pooling: str, **options) -> str:
    first = Transformer(str(bert))
    made = SentenceTransformer(
        modules=[first, Pooling(first.get_embedding_dimension(), pooling)], device="cpu", **options
    )
    made.save(str(folder), create_model_card=False)
    return str(folder)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("narrow", "hidden size: 16 and 8"),
        ("deep", "num hidden layers: 2 and 3"),
        ("cls", "Pooling pooling mode: mean and cls"),
        ("tokenizer", "cannot be averaged: they differ in tokenizer"),
        ("static", "modules: Transformer → Pooling and StaticEmbedding"),
        ("table", "weights: "),
        ("dot", "similarity: learn and cosine; give the `sim=` of the result"),
        ("nan", "weights are not finite"),
    ],
)
def test_what_cannot_be_averaged_is_one_line(tiny_bert, runs, tmp_path, other, message):
    one, two = str(tiny_bert), str(tmp_path / "other")
    if other == "narrow":
        make_bert(tmp_path / "other", dimension=8)
    elif other == "deep":
        make_bert(tmp_path / "other", layers=3)
    elif other == "cls":
        as_sentence_transformer(tiny_bert, tmp_path / "other", "cls")
    elif other == "tokenizer":
        copy_of(tiny_bert, tmp_path / "other")
        path = tmp_path / "other" / "tokenizer.json"
        path.write_text(path.read_text().replace('"Lowercase"', '"NFC"'))
    elif other == "static":
        two = "static:16"
    elif other == "table":
        one, two = "static:16", "static:8"
    elif other == "dot":
        one, two = str(runs[0]), str(tiny_bert)
    elif other == "nan":
        copy_of(tiny_bert, tmp_path / "other", lambda value: value * float("nan"))
    with pytest.raises((UsageError, DataError)) as caught:
        retrokit.merge([one, two], str(tmp_path / "out"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} <= {"other"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": (1,)}, "`weights=`: 1 for 2 encoders"),
        ({"weights": (1, -1)}, "`weights=` add up to 0"),
        ({"as_given": True}, "`as_given=` needs `weights=`"),
        ({"encoders": ["minilm"]}, "two encoders or more, not 1"),
        ({"sim": "cosin"}, "unknown similarity 'cosin'"),
        ({"weights": (float("nan"), 1)}, "`weights=` nan is out of range"),
    ],
)
def test_wrong_settings_are_told_before_the_work(tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        retrokit.merge(**{"encoders": ["minilm", "static:8"], "output": str(tmp_path / "out"), **options})


def test_a_similarity_that_is_chosen(tiny_bert, runs, tmp_path):
    both = [str(tiny_bert), str(runs[0])]
    assert retrokit.merge(both, str(tmp_path / "soup"), sim="dot").similarity == "dot"
    assert retrokit.load(str(tmp_path / "soup")).similarity.spec == "dot"
    with pytest.raises(UsageError, match="similarity cosine; expected learn"):
        retrokit.merge(both, str(tmp_path / "other"), sim="learn")


def test_whole_numbers_must_be_the_same(tiny_bert, tmp_path, monkeypatch):
    real, numbers = encoders.registry.create_on, itertools.count()

    def with_a_count(spec, device):
        made = real(spec, device)
        made.to_train().model[0].register_buffer("seen", torch.tensor(next(numbers)))
        return made

    monkeypatch.setattr(encoders.registry, "create_on", with_a_count)
    with pytest.raises(UsageError, match=r"they differ in 0\.seen, which are whole numbers"):
        retrokit.merge([str(tiny_bert), str(tiny_bert)], str(tmp_path / "out"))


def test_other_prompts_are_told_of(tiny_bert, tmp_path, capsys):
    one = as_sentence_transformer(tiny_bert, tmp_path / "one", "mean", prompts={"query": "ask: "})
    two = as_sentence_transformer(tiny_bert, tmp_path / "two", "mean")
    assert cli.run(["merge", one, two, "-o", str(tmp_path / "soup")]) == 0
    assert f"{two} has other prompts or lengths than {one}, whose are used" in capsys.readouterr().err
    assert retrokit.encoder(str(tmp_path / "soup")).prompts["query"] == "ask: "
