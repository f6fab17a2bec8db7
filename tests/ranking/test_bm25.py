"""BM25: the formula, texts that are no documents, words that nobody has, and what tasks make of it."""

import math

import numpy as np
import pytest

from retrokit.core.errors import UsageError
from retrokit.core.notices import heard
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from retrokit.ranking.retrieval import LANGUAGES, registry

DOCUMENTS = ["red cat runs", "blue cat sleeps red red", "green house", "", "day night"]


def by_hand(query: str, text: str, documents: list[str] = DOCUMENTS, k1: float = 1.5, b: float = 0.75) -> float:
    score, words = 0.0, text.split()
    average = sum(len(document.split()) for document in documents) / len(documents)
    for word in query.split():
        df = sum(word in document.split() for document in documents)
        tf = words.count(word)
        if df and tf:
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            score += idf * tf / (tf + k1 * (1 - b + b * len(words) / average))
    return score


@pytest.mark.parametrize(
    ("options", "k1", "b"), [("", 1.5, 0.75), (",k1=0.9,b=0.4", 0.9, 0.4), (",k1=0,b=1", 0.0, 1.0)]
)
def test_scores_are_the_formulas(options, k1, b):
    index = registry.create(f"bm25:language=none{options}").index(DOCUMENTS)
    for query in ("red", "red cat cat", "green unknown night"):
        ((scores, positions),) = index.search([query], 5)
        expected = [by_hand(query, text, k1=k1, b=b) for text in DOCUMENTS]
        order = sorted((i for i in range(5) if expected[i] > 0), key=lambda i: -expected[i])
        assert positions.tolist() == order
        assert scores == pytest.approx([expected[i] for i in order], rel=1e-5)
        texts = [*DOCUMENTS, "red moon", "sun", "red red moon cat moon red"]
        pairs = index.score_pairs([query] * len(texts), texts)
        assert pairs.dtype == np.float32
        assert pairs == pytest.approx([by_hand(query, text, k1=k1, b=b) for text in texts], rel=1e-5)


def test_what_shares_no_word_is_not_found():
    index = registry.create("bm25").index(["the cats", "a dog"])
    lists = index.search(["cat", "the", "bird", ""], 10)
    assert [positions.tolist() for _, positions in lists] == [[0], [], [], []]
    assert registry.create("bm25").index(["the", ""]).search(["the cat"], 3)[0][1].tolist() == []
    assert index.score_pairs([], []).shape == (0,)
    with pytest.raises(UsageError, match="k must be at least 1"):
        index.search(["cat"], 0)
    with pytest.raises(UsageError, match="2 and 1"):
        index.score_pairs(["a", "b"], ["c"])


def test_equal_scores_rank_in_the_order_of_the_documents():
    index = registry.create("bm25").index(["red cat", "blue cat", "green cat", "house"])
    assert [positions.tolist() for _, positions in index.search(["cat", "cat"], 2)] == [[0, 1]] * 2


def test_many_equal_scores_rank_in_the_order_of_the_documents():
    """More than a sort of few items takes, of two different scores."""
    documents = [f"cat w{i}" if i % 3 else f"cat cat v{i}" for i in range(90)]
    ((_, positions),) = registry.create("bm25:language=none").index(documents).search(["cat"], 90)
    assert positions.tolist() == sorted(range(90), key=lambda i: (i % 3 > 0, i))


@pytest.mark.parametrize("language", ["english", "none"])
@pytest.mark.parametrize(
    ("query", "relevant", "other"),
    [
        ("如何申请护照", "护照在出入境管理局办理。", "今天天气晴朗。"),
        ("猫が好き", "白い猫は寝ている。", "明日は晴れです。"),  # a Han character that is a word
        ("ﾊﾟｽﾎﾟｰﾄ", "パスポートの申請は市役所で。", "カレーライス"),  # half width
        ("서울 날씨", "오늘 서울의 날씨는 맑습니다.", "김치를 볶는다."),
        ("อากาศกรุงเทพ", "วันนี้ที่กรุงเทพร้อนมาก", "ต้มยำกุ้งง่ายๆ"),
        ("ພາສາລາວ", "ຂ້ອຍເວົ້າພາສາລາວ", "ອາຫານແຊບ"),
        ("ភាសាខ្មែរ", "ខ្ញុំនិយាយភាសាខ្មែរ", "អាហារឆ្ងាញ់"),
        ("မြန်မာ", "ကျွန်တော်မြန်မာစကားပြောတယ်", "ထမင်းစားပြီးပြီ"),
        ("कि", "वह कि कहाँ", "का के"),  # told apart by vowels alone
        ("python 教程", "用Python写代码", "用Java写代码"),
        ("Ｃａｆｅ", "a cafe", "a bar"),
        ("cafe\u0301", "a caf\u00e9", "a cafe"),
        ("istanbul", "İSTANBUL", "Ankara"),
        ("ISPARTA", "ısparta", "Ankara"),
        ("STRASSE", "die Straße", "der Weg"),
        ("محمد", "مُحَمَّد", "علي"),
    ],
)
def test_every_script_is_found(query, relevant, other, language):
    index = registry.create(f"bm25:language={language}").index([other, relevant])
    assert index.search([query], 2)[0][1].tolist() == [1]
    assert index.score_pairs([query], [relevant]) == index.search([query], 1)[0][0]


def test_bigrams_are_counted_as_words_and_said():
    """A document of the words that the pairs of characters are, and each Han character, scores as the text does."""
    documents = ["護照申請 abc", "天気がいい", "plain words"]
    with heard() as said:
        index = registry.create("bm25:language=none").index(documents)
    assert said == ["bm25: character bigrams for Han, Hiragana (40.9% of the characters)"]
    with heard() as said:
        registry.create("bm25").index([*["a long text in English"] * 50, "キログ"])
    assert said == []  # 0.3% of the characters
    by_words = ["護照 照申 申請 護 照 申 請 abc".split(), "天気 気が がい いい 天 気".split(), ["plain", "words"]]
    average, length = sum(map(len, by_words)) / 3, len(by_words[0])
    expected = 4 * math.log(1 + 2.5 / 1.5) / (1 + 1.5 * (0.25 + 0.75 * length / average))
    ((scores, positions),) = index.search(["申請 請"], 3)
    assert positions.tolist() == [0]
    assert scores == pytest.approx([expected], rel=1e-5)
    with heard() as said:
        registry.create("bm25").index(["only café"])
    assert said == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_there(language):
    index = registry.create(f"bm25:language={language}").index(["radio piano", "banana"])
    assert index.search(["radio"], 2)[0][1].tolist() == [0]


def test_settings_decide_the_fingerprint():
    prints = {registry.create(spec).fingerprint() for spec in ("bm25", "bm25:b=0.4", "bm25:language=german")}
    assert len(prints) == 3
    assert registry.create("bm25:k1=1.5").fingerprint() in prints


@pytest.mark.shared_data
def test_scifact(shared_data):
    result = tasks.create(f"beir:{shared_data / 'scifact'}").evaluate(
        Request(searcher=registry.create("bm25"), metrics=["ndcg@10"])
    )[0]
    assert result.metrics["ndcg@10"] == pytest.approx(0.6863, abs=0.002)
