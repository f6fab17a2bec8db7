"""Fixtures of tests of ``build-sure`` that tests of its further commands use too."""

from tests.test_cli_build_sure import build_sure as build_sure
from tests.test_cli_build_sure import data as data
from tests.test_cli_build_sure import llm as llm
