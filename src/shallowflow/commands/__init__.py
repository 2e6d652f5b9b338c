"""Commands of the command line that are large enough for a file of their own; `cli` is the entry."""
