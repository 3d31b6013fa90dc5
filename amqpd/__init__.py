"""amqpd, an AMQP 0-9-1 queue server: the version, and which build this is.

The core is one source that runs compiled by mypyc or as it stands. Nothing else in
the package asks which of the two it is; people and bug reports do.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

__version__: Final = "0.1.0"


def build_kind() -> str:
    """Return "compiled" or "pure": how the core of this installation runs."""
    spec = find_spec("amqpd.wire.tables")
    origin = "" if spec is None or spec.origin is None else spec.origin
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
