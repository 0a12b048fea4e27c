"""Parts of benchmarks/gpu.py: rates, traces, operators, settings."""
