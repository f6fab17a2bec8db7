"""The records that studies print, for reports."""

from retrokit.report.records import RecordEntry

STEPS = RecordEntry("steps", "The steps of a study and their states.", "retrokit.extensions.studies.state:StudyStates")
WHY = RecordEntry("why", "What explains a published figure.", "retrokit.extensions.studies.why:Why")
