"""Hostile and damaged input, made by the hundred thousand: ``python fuzz/run.py --inputs 200000 --jobs 2``."""
