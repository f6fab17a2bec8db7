"""The page of a report in headless Chromium: sorting, a phone, light and dark, print, and that nothing is loaded."""

import pytest

from tests.extensions.page.test_page import HOSTILE, evaluated, evaluation, of_probe, page_from
from tests.report import gallery


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """A page with much on it, in the browser."""
    folder = tmp_path_factory.mktemp("page")
    found = evaluation("second", "third", "first", f"a{HOSTILE}")
    page = page_from(folder, evaluated(found, True), of_probe(gallery.near_miss(["a", HOSTILE], [HOSTILE])))
    (folder / "page.html").write_text(page)
    browser.get((folder / "page.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []  # nothing was refused, nothing failed


def names(browser) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelector('tbody').rows].map((row) => row.cells[0].innerText)"
    )


def test_tables_are_sorted_by_mouse_and_keyboard(opened):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    name, _, metric = opened.find_element(By.CSS_SELECTOR, "thead").find_elements(By.TAG_NAME, "button")
    head = metric.find_element(By.XPATH, "..")
    before = names(opened)
    metric.click()  # each system is better than the one before it
    assert head.get_attribute("aria-sort") == "descending"
    assert names(opened) == before[::-1]
    metric.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(opened) == before
    name.send_keys(Keys.SPACE)
    assert head.get_attribute("aria-sort") is None
    assert names(opened) == sorted(before)


def test_nothing_is_asked_of_anyone(opened):
    asked = "return performance.getEntriesByType('resource').map(one => one.name)"
    assert [name for name in opened.execute_script(asked) if not name.startswith("data:")] == []
    assert opened.execute_script("return window.hacked === undefined && document.scripts.length") == 1
    refused = opened.execute_async_script(
        "const done = arguments[0]; const image = new Image();"
        "image.onload = () => done('loaded'); image.onerror = () => done('refused'); image.src = 'page.html';"
    )
    assert refused == "refused"
    opened.get_log("browser")  # says so
