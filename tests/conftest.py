"""Fixtures that every test may use."""

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import forked_python, schemas
from tests.processes import make_folder_of_pictures

schemas.watch()

os.environ["RETROKIT_CACHE"] = "off"  # the user's cache stays untouched; a test of the cache names a folder of its own
os.environ["COLUMNS"] = "120"  # a table turns where the path of a temporary folder is too long for it
if "PYTEST_XDIST_WORKER" in os.environ:  # one thread for each of several processes, and for what they start
    os.environ["OMP_NUM_THREADS"] = "1"  # before PyTorch is imported, which the process that starts them can do without

# how fast a machine is that has other work to do is no property of the code
settings.register_profile("no-clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-clock")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
ALLOWED_SKIPS = (
    "there is no GPU that CUDA knows",
    "this processor packs no bf16 layers",
    "the real data is not here",
    "only root can give a folder away",
    "no Chromium with chromedriver on this machine",
    "ranx is not installed",
    "no whole history",  # of a shallow clone
    "an extra",  # of trackers
    *("a command of an extension, which is left out", "pages show options of extensions"),  # .ci/core_alone
    "the pages show",  # docstrings of one version of Python, and what a time budget allows
)
"""How the reasons begin for which a test may be skipped in CI."""


@pytest.fixture(autouse=True, scope="session")
def _place_of_schemas(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One for all processes of a test run."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    os.environ["RETROKIT_TEST_SCHEMAS"] = str(shared / "schemas")
    os.environ["RETROKIT_TEST_PYTHON"] = sys.executable


@pytest.fixture(autouse=True, scope="session")
def _place_of_data(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the built-in data set is written."""
    os.environ["RETROKIT_DATA"] = str(tmp_path_factory.getbasetemp() / "built-in-data")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI (``CI=true``), fail a run that skips a test for any other reason."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or terminal is None:
        return
    reports = terminal.stats.get("skipped", [])
    reasons = {(report.nodeid, report.longrepr[2].removeprefix("Skipped: ")) for report in reports}
    if wrong := sorted((place, reason) for place, reason in reasons if not reason.startswith(ALLOWED_SKIPS)):
        terminal.write_line("")
        for place, reason in wrong:
            terminal.write_line(f"{place}: skipped for a reason that tests/conftest.py does not list: {reason}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    """What the libraries and the collected tests hold is there to stay, and no collection of garbage need look at it:
    the libraries ask for one after every training."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real public data beside the project; a user's clone does not have it."""
    if not _SHARED.is_dir():
        pytest.skip(f"the real data is not here: {_SHARED}")
    return _SHARED


@pytest.fixture(scope="session")
def real_sure() -> Path:
    """The folder of the published SURE sets."""
    return real("sure", "msmarco", "fiqa")


@pytest.fixture(scope="session")
def real_cisi() -> Path:
    """CISI, a BEIR folder."""
    return real("cisi", "corpus.jsonl", "queries.jsonl", "qrels")


def real(name: str, *parts: str) -> Path:
    """The folder that the variable of this name contains, as in docs/reproduction/data.toml, else the shared one."""
    folder = Path(os.environ.get(name.upper()) or _SHARED / name).resolve()
    for part in parts:
        if not (folder / part).exists():
            pytest.skip(f"the real data is not here: {folder / part}")
    return folder


@pytest.fixture(scope="session", autouse=True)
def base(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tell :mod:`tests.forked_python` where all workers have their folders."""
    folder = tmp_path_factory.getbasetemp()
    forked_python.BASE = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session", autouse=True)
def undrawn() -> Iterator[Any]:
    """Draw no pictures of runs, which takes as long as training them does; what draws them, for who wants to see."""
    from retrokit.report import plots

    with pytest.MonkeyPatch.context() as patch:
        drawn = plots.training_plots
        patch.setattr(plots, "training_plots", make_folder_of_pictures)
        yield drawn


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Any]:
    """Run a command line in the test's folder: exit code, standard output, standard error."""
    from retrokit import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")  # what a command sets ends with the test
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.run([*map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``auto`` is on a processor without bf16."""
    from retrokit.encoders import precision

    monkeypatch.setattr(precision, "_gains", lambda: False)


@pytest.fixture
def python() -> str:
    """Stands for ``sys.executable`` where what is imported is not the point; see :mod:`tests.forked_python`."""
    return forked_python.python()


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT checkpoint of 16 dimensions and two layers; do not write into it."""
    from tests.models import make_bert

    return make_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny image-text checkpoint of 16 dimensions; do not write into it."""
    from tests.models import make_clip

    return make_clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny decoder checkpoint; do not write into it."""
    from tests.models import make_llama

    return make_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A tiny sequence-to-sequence checkpoint that reads 64 tokens; do not write into it."""
    from tests.models import make_t5

    return make_t5(tmp_path_factory.mktemp("models") / "t5", tiny_bert)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium, and the folder that it saves downloads in."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no Chromium with chromedriver on this machine (Debian: apt install chromium chromium-driver)")
    folder = tmp_path_factory.mktemp("browser")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    words = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}")
    for word in (
        *words,
        "--disable-background-networking",
        "--no-first-run",
        "--window-size=1200,900",
        *("--disable-gpu", "--disable-quic", "--disable-component-update", "--disable-sync"),
    ):
        options.add_argument(word)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder / "saved")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    running.saved = folder / "saved"
    yield running
    running.quit()
