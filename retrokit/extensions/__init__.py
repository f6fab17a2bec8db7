"""Extensions: a folder each. Each is declared as a third party's would be, and nothing outside imports one."""
