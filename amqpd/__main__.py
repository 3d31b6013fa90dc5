"""`python -m amqpd` is the command `amqpd`."""

import sys

from amqpd.cli.server import main

if __name__ == "__main__":
    sys.exit(main())
