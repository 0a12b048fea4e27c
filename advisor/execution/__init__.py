"""Where the work on many traces runs: here, one after the other; side by side in a pool of processes; on a cluster.

A trace is read and analyzed where the work runs; what comes back is its analysis and its digest, as bytes. What lies
across the ranks is worked out here, from the digests.
"""
