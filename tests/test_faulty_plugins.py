"""Faults of a plugin's similarity: each is one line that names the entry and the package, before a search or a training
uses it."""

import pytest
import torch

from retrokit import similarities
from retrokit.core.errors import UsageError
from retrokit.encoders.folders import similarity_of
from tests import plugins

HEAD = """
import torch
from retrokit.similarities.base import Similarity, as_rows

"""
PREPARE = """
    def prepare(self, embeddings, role):
        return as_rows(embeddings)
"""
KERNEL = """
    def kernel(self, queries, documents):
        return -torch.cdist(queries, documents)
"""
PAIRS = """
    def kernel_pairs(self, queries, documents):
        return -(queries - documents).norm(dim=-1)
"""
ENTRY = """
from retrokit.core.registry import Entry
ENTRY = Entry("odd", "an odd one", "{target}")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package whose similarity ``odd`` has the members that are given."""

    def install(*members, package, target=None):
        source = f"{HEAD}class Odd(Similarity):\n{''.join(members) or '    pass'}\n"
        modules = {
            package: ENTRY.format(target=target or f"{package}_impl:Odd"),
            f"{package}_impl": source,
        }
        plugins.install(tmp_path, package, modules, f"[retrokit.similarities]\nodd = {package}:ENTRY\n")
        plugins.look_in(tmp_path, similarities.registry, monkeypatch)

    return install


NOT_FACTORABLE = "    factorable = False\n"
FAULTS = {
    "kernel": ((PREPARE, KERNEL, PAIRS), "has a kernel of its own; set factorable = False"),
    "pairs": ((PREPARE, PAIRS), "has a kernel of its own; set factorable = False"),
    "one": ((NOT_FACTORABLE, PREPARE, KERNEL), "has factorable = False; it needs kernel and kernel_pairs"),
    "none": ((), "has no prepare"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_class_is_refused_when_it_is_created(install, fault):
    members, problem = FAULTS[fault]
    install(*members, package=f"odd_{fault}")
    with pytest.raises(UsageError) as caught:
        similarities.registry.create("odd")
    assert str(caught.value) == f"similarity odd: Odd: {problem}. This is a bug of the plugin odd_{fault}_impl"


SHAPES = {
    "scores": (PREPARE, "    def kernel(self, q, d):\n        return -torch.cdist(q, d)[:, 0]\n", PAIRS),
    "pairs": (PREPARE, KERNEL, "    def kernel_pairs(self, q, d):\n        return -torch.cdist(q, d)\n"),
}
PROBLEMS = {
    "scores": "kernel gives [2] for 2 queries and 3 documents, not [2, 3]",
    "pairs": "kernel_pairs gives [3, 3] for 3 pairs, not [3]",
}


@pytest.mark.parametrize("fault", SHAPES)
def test_scores_of_a_wrong_shape_are_refused_before_they_are_used(install, fault):
    install(NOT_FACTORABLE, *SHAPES[fault], package=f"shape_{fault}")
    similarity = similarities.registry.create("odd")
    with pytest.raises(UsageError) as caught:
        similarity.check_fits(8)
    assert (
        str(caught.value) == f"similarity odd: Odd: {PROBLEMS[fault]}. This is a bug of the plugin shape_{fault}_impl"
    )


def test_a_sound_kernel_is_taken(install):
    install(NOT_FACTORABLE, PREPARE, KERNEL, PAIRS, package="sound")
    similarity = similarities.registry.create("odd")
    similarity.check_fits(2)
    scores = similarity.score(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    assert scores.tolist() == [[-5.0, 0.0]]


@pytest.mark.parametrize("target", ["lost_impl.absent:Odd", "gone_impl:Absent"])
def test_a_target_that_is_not_there_is_one_line(install, target):
    install(PREPARE, package=target.partition("_")[0], target=target)
    with pytest.raises(UsageError) as caught:
        similarities.registry.create("odd")
    assert str(caught.value).startswith(f"odd: {target} does not load: ")
    assert str(caught.value).endswith(f". This is a bug of the plugin {target[:9]}")
    assert "\n" not in str(caught.value)


def test_a_model_folder_whose_plugin_is_missing_says_what_to_install():
    with pytest.raises(UsageError) as caught:
        similarity_of("runs/mine", "squared")
    assert str(caught.value).startswith("runs/mine: needs the similarity squared; install the plugin that has it (")
