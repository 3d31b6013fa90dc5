"""Numbers in, acknowledgements out.

`publisher` says which confirms a channel may write, `unacked` remembers what was
delivered under which tag. Neither knows what a message, a queue or a frame is.
"""
