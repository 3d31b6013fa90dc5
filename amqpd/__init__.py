"""amqpd, an AMQP 0-9-1 queue server: the version, and which build this is.

The core is one source that runs compiled by mypyc or as it stands. Nothing else in
the package asks which of the two it is; people and bug reports do.

As it stands `i64(x)` would be a call of a Python function that calls `int`, of which
each message takes dozens. So whoever imports these types from here on gets `int`: it
says the same, and compiled code does not look.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

import mypy_extensions

__version__: Final = "0.1.0"

for _name in ("i64", "i32", "i16", "u8"):
    setattr(mypy_extensions, _name, int)


def build_kind() -> str:
    """Return "compiled" or "pure": how the core of this installation runs."""
    spec = find_spec("amqpd.wire.tables")
    origin = "" if spec is None or spec.origin is None else spec.origin
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
