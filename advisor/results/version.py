"""The version of this package: the one place that says it. The build and ``advisor.__version__`` read it here."""

VERSION = "0.1.0"
