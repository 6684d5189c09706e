"""The command line: ``perdure COMMAND``. One module per noun; ``render`` is the only one that knows about terminals."""
