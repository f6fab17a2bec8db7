"""What a person sees: tables, JSON, plots, progress. Used by the command line alone."""
