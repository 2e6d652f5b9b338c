"""The report page: its text, its numbers, its files."""
