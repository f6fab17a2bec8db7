"""Output for people: tables, JSON, plots, progress. Used only by the command line."""
