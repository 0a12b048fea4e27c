"""The gate: a candidate's analyses held against a baseline, check by check, and two traces compared."""
