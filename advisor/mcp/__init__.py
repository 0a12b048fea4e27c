"""``advisor mcp``: the advisor as a server of the Model Context Protocol, a door beside the command line.

Nothing else imports it, and only ``server.py`` and ``http.py`` import the ``mcp`` package. A tool is a file in ``tools/`` and
a line in their registry; ``workspace.py`` keeps what was analyzed, ``roots.py`` what may be read.
"""
