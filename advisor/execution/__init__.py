"""Execution of the work on one trace or many: in this process, side by side in a pool of processes, or on a cluster.

A trace is read and analyzed where the work runs; what comes back is its analysis and its digest, as bytes. What lies
across the ranks is worked out in this process, from the digests.
"""
