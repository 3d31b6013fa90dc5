"""What TLS adds to the price of a message, from `amqpd bench` with and without it.

    plain, tls, tls, plain      for messages of 16 B, then of 1 KiB, on one broker

The generator in C speaks no TLS, so `amqpd bench` loads the broker both ways here; it
is slower, and the two prices are to be compared with each other only. The certificate
is made for the occasion, by an authority that the generator is told to believe.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import mean
from typing import Final

from amqpd.testing import HeldPort
from tests.bench.broker import Target, started
from tests.bench.figures import Figures
from tests.bench.generator import LoadFailed
from tests.bench.machine import cpu_seconds_of, pinned
from tests.support.certificates import Authority

#: By the name of the figure: octets of a body, and messages a second, which the
#: generator can take over TLS: the price of a backlog is another one.
LOADS: Final = {"16b": (16, 100_000), "1k": (1024, 20_000)}
IS_TLS: Final = (False, True, True, False)


def measure_tls(
    target: Target, generator_core: int | None, seconds: float, parent: Path
) -> Figures:
    """Load a broker with and without TLS; return both prices and their ratio."""
    figures: Figures = {}
    port = HeldPort()
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        authority = Authority(Path(directory) / "authority")
        pair = authority.issue("localhost")
        environment = {
            "AMQPD_TLS_PORT": str(port.number),
            "AMQPD_TLS_CERT": str(pair.cert),
            "AMQPD_TLS_KEY": str(pair.key),
        }
        process = target.process
        with started(process.command, process.core, parent, environment) as both:
            secured = f"amqps://guest:guest@localhost:{port.number}/"
            load = _Load(process.command, generator_core, authority.cert, seconds / 2)
            for name, (size, rate) in LOADS.items():
                runs = [
                    load.cpu_s_per_million(
                        both, secured if tls else both.uri, size, rate
                    )
                    for tls in IS_TLS
                ]
                plain, tls = mean((runs[0], runs[3])), mean(runs[1:3])
                figures[f"plain_{name}_cpu_s_per_million"] = plain
                figures[f"tls_{name}_cpu_s_per_million"] = tls
                figures[f"tls_{name}_over_plain"] = tls / plain
    port.close()
    return figures


class _Load:
    """`amqpd bench`, transient messages to a consumer that acks nothing."""

    def __init__(
        self, command: str, core: int | None, believed: Path, seconds: float
    ) -> None:
        self._command = [command, "bench", "--json", "--quiet", "--autoack"]
        self._command += ["--seconds", str(seconds)]
        self._core = core
        self._environment = os.environ | {"SSL_CERT_FILE": str(believed)}

    def cpu_s_per_million(
        self, target: Target, url: str, size: int, rate: int
    ) -> float:
        """Return the broker's CPU-seconds per million deliveries.

        Raises:
            LoadFailed: the generator ended with an error.
        """
        flags = ("--size", str(size), "--rate", str(rate))
        before = cpu_seconds_of(target.pids)
        with pinned(self._core):
            ended = subprocess.run(
                [*self._command, "--url", url, *flags],
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
            )
        if ended.returncode:
            raise LoadFailed(f"{ended.args!r}\n{ended.stderr}{ended.stdout}")
        taken = cpu_seconds_of(target.pids) - before
        return taken * 1e6 / int(json.loads(ended.stdout)["delivered"])
