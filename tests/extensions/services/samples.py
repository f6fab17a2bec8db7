"""What services compute has no command of its own, so tests of all commands need nothing."""

from tests.samples import Samples

SAMPLES = Samples()
