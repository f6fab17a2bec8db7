"""Fixtures of tests of the core that tests of extensions use too."""

from tests.core.test_interrupts import started as started
from tests.test_damaged_outputs import sound as sound
from tests.test_damaged_outputs import workshop as workshop
