"""Whether `store`, `routing` and `confirms` are ours before anybody imports them.

These are names that an application may well have for something of its own. Where its
directory comes first on the path, ours would be hidden and the broker would fail far
from the cause, with an ImportError about a name in somebody else's module. So this is
asked before the first such import, and knows nothing but where files lie.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

NEIGHBOURS: Final = ("store", "routing", "confirms")
_HOME: Final = Path(__file__).resolve().parent.parent


class NeighbourHidden(Exception):
    """Another package of that name comes first on the path; the text names it."""


def check_neighbours() -> None:
    """Return if the three packages lie beside this one.

    Raises:
        NeighbourHidden: one does not.
    """
    for name in NEIGHBOURS:
        spec = find_spec(name)
        # A mere directory of that name has no origin, and never hides a package.
        if spec is None or spec.origin is None:
            raise NeighbourHidden(f"there is no package {name!r} beside {_HOME}/amqpd")
        if Path(spec.origin).resolve().parent != _HOME / name:
            raise NeighbourHidden(
                f"{spec.origin} hides the package {name!r} of amqpd: start it with"
                " python -I -m amqpd, or give amqpd an environment of its own"
            )
