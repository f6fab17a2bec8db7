"""What everything else is built on: names, settings, errors, notices, and files that are written whole."""
