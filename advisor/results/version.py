"""The version of this package: the one place that says it. The build and ``advisor.__version__`` read it here."""

__version__ = "0.1.0"
