"""The tasks of MTEB, run by mteb itself."""
