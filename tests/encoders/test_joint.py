"""Two encoders side by side in one vector."""

from __future__ import annotations

import numpy as np
import pytest

import retrokit
from retrokit import retrieval
from retrokit.errors import UsageError
from tests.models import make_bert, sentences

TEXTS = sentences(12, seed=3)


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("parts")
    return str(make_bert(folder / "a")), "static:16"


def units(spec: str, texts: list[str]) -> np.ndarray:
    made = retrokit.encoder(spec).embed(texts, "document").astype(np.float64)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.7, 1.0])
def test_its_cosine_is_the_weighted_sum_of_both(parts, weight):
    a, b = parts
    joint = retrokit.encoder(f"joint:a={a},b={b},weight={weight}")
    made = joint.embed(TEXTS, "document")
    assert made.dtype == np.float32
    assert made.shape == (12, joint.dimension)
    expected = sum(share * one @ one.T for share, one in ((1 - weight, units(a, TEXTS)), (weight, units(b, TEXTS))))
    np.testing.assert_allclose(joint.similarity.score(made, made).numpy(), expected, atol=3e-7)
    assert (joint.similarity.spec, joint.prompts) == ("cosine", retrokit.encoder(a).prompts)


def test_all_that_decides_it_is_in_its_identity(parts):
    a, b = parts
    specs = [
        *(f"joint:a={a},b={b}", f"joint:a={a},b={b},weight=0.2", f"joint:a={b},b={a}"),
        f'joint:a={a},b="static:16,seed=1"',
    ]
    made = [retrokit.encoder(spec) for spec in specs]
    assert len({encoder.fingerprint() for encoder in made}) == len(specs)
    assert made[0].spec == f"joint:a={a},b={b}"
    assert retrokit.encoder(specs[0]).key() == made[0].key()
    assert made[0].identity()["code"] is not None


def test_a_text_that_one_of_them_cuts_is_cut(parts):
    a, b = parts
    joint = retrokit.encoder(f'joint:a="{a},max_length=4",b={b}')
    assert joint.cut(["a", "a long text of more than four tokens"], "document").tolist() == [False, True]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("joint:a=static:16,b=static:16", "joint: a and b are both static:16"),
        ('joint:a="static:16,chunks=8",b=static:8', "has several embeddings of a document"),
        ("joint:a=static:16,b=static:8,weight=1.5", "weight"),
        ("joint:a=static:16", "b"),
    ],
)
def test_what_makes_no_sense_is_refused(spec, message):
    with pytest.raises(UsageError, match=message):
        retrokit.encoder(spec)


def test_it_ranks_as_any_encoder(parts):
    a, b = parts
    index = retrieval.create(f"joint:a={a},b={b},weight=0.3").index(TEXTS)
    ((_, found),) = index.search(TEXTS[:1], 3)
    assert found[0] == 0
