"""Addresses have no command of their own, so tests of all commands need nothing."""

from tests.samples import Samples

SAMPLES = Samples()
