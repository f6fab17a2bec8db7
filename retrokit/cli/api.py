"""The parts of a third party's command (``docs/reference/extensions.md``); the commands here use the same."""

from retrokit.cli.common import show as show
from retrokit.cli.common import show_record as show_record
from retrokit.cli.common import show_result as show_result
from retrokit.cli.common import write_rows as write_rows
from retrokit.cli.config import options_of as options_of
from retrokit.cli.config import typed as typed
from retrokit.cli.entry import in_options as in_options
from retrokit.cli.entry import wrong_use as wrong_use
from retrokit.cli.streams import is_first_process as is_first_process
from retrokit.cli.streams import readers_may_leave as readers_may_leave
from retrokit.cli.training import DRY_RUN as DRY_RUN
from retrokit.cli.training import TIME as TIME
from retrokit.cli.training import train_as_planned as train_as_planned
from retrokit.cli.training import train_encoder as train_encoder
from retrokit.core.errors import DataError as DataError
from retrokit.core.errors import UsageError as UsageError
from retrokit.core.notices import notice as notice
from retrokit.core.notices import progress as progress
from retrokit.core.settings import FILE as FILE
from retrokit.core.settings import FOLDER as FOLDER
from retrokit.core.settings import Settings as Settings
from retrokit.core.settings import common as common
from retrokit.core.settings import setting as setting
from retrokit.core.sheet import Sheet as Sheet
from retrokit.core.sheet import facts as facts
