"""The version of the package that is installed."""

from importlib import metadata

try:
    __version__ = metadata.version("shallowflow")
except metadata.PackageNotFoundError:
    __version__ = "0+unknown"
