"""Names in, destinations out.

`router` walks exchanges and bindings; each exchange type is one file with one table
of bindings. What a destination is, only the caller knows.
"""
