"""The former name of :mod:`advisor.testing.incomplete`, for proofs that import it."""

from advisor.testing.incomplete import *  # noqa: F403
