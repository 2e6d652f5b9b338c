"""The few errors that shallowflow raises; numerical trouble is an `Outcome`, never an exception."""


class ShallowflowError(Exception):
    """Base of every error raised on purpose by shallowflow."""


class InvalidInputError(ShallowflowError, ValueError):
    """An argument breaks its rule; the message names the argument, the rule and the value received."""


class FileFormatError(ShallowflowError, ValueError):
    """A file cannot be read as what it should be; the message names the file and what is wrong."""


class StoreError(ShallowflowError):
    """A store of results cannot be opened, read or written; the message names it and says what to do."""
