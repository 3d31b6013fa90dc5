"""Compiles the core when there is a C compiler; everything else is in pyproject.toml.

The core is ordinary typed Python. mypyc turns it into C extensions that run several
times as fast; without them the same files run as they are. So a missing compiler (or
missing Python headers) is a slower broker, never a failed installation. What does
fail is a core that mypyc refuses: that is a mistake in the source and not a property
of the machine.

    AMQPD_PURE=1 pip install .       leave the core uncompiled
    amqpd --version                  says which of the two is installed
"""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.dist import Distribution

CORE: Final = (
    "amqpd/wire",
    "amqpd/protocol",
    "amqpd/broker",
    "amqpd/auth",
    "store",
    "routing",
    "confirms",
    "amqpd/bench",
)

#: Core modules that stay interpreted, by reason. What a message passes is compiled;
#: the rest would only make the build longer.
INTERPRETED: Final = {
    "tests put their own in its place": ("store/filesystem.py",),
    "SQLite does the work": (
        "store/metadata.py",
        "amqpd/broker/catalogue/catalogue.py",
    ),
    "runs at start only": (
        "store/options.py",
        "store/data_directory.py",
        "store/log_files.py",
        "store/opening.py",
        "store/quarantine.py",
        "amqpd/broker/definition_file.py",
        "amqpd/broker/definitions.py",
    ),
    "offline tools": (
        "store/closed_directory.py",
        "store/inspection.py",
        "store/log_survey.py",
        "store/repair.py",
        "store/segment_check.py",
        "store/verification.py",
    ),
    "system calls, a few a minute": (
        "store/checkpoint_files.py",
        "store/remover.py",
    ),
    "runs once per connection": (
        "amqpd/auth/certificates.py",
        "amqpd/auth/passwords.py",
        "amqpd/auth/sasl.py",
        "amqpd/auth/tls_peer.py",
        "amqpd/auth/users.py",
        "amqpd/protocol/handshake.py",
        "amqpd/protocol/lifecycle.py",
    ),
    "sockets, a clock and a screen around the generator": (
        "amqpd/bench/connection.py",
        "amqpd/bench/crew.py",
        "amqpd/bench/figures.py",
        "amqpd/bench/load.py",
        "amqpd/bench/options.py",
        "amqpd/bench/own_cost.py",
        "amqpd/bench/pace.py",
        "amqpd/bench/plan.py",
        "amqpd/bench/progress.py",
        "amqpd/bench/report.py",
        "amqpd/bench/run.py",
        "amqpd/bench/topology.py",
        "amqpd/bench/verdict.py",
    ),
    "control plane": (
        "amqpd/broker/administration/accounts.py",
        "amqpd/broker/clients/admission.py",
        "amqpd/broker/arguments.py",
        "amqpd/broker/vhosts/binding_changes.py",
        "amqpd/broker/clients/connection_facts.py",
        "amqpd/broker/policies/effective_policy.py",
        "amqpd/broker/erlang_term.py",
        "amqpd/broker/vhosts/exchange_changes.py",
        "amqpd/broker/policies/number_limits.py",
        "amqpd/broker/catalogue/operation.py",
        "amqpd/broker/administration/parameter_changes.py",
        "amqpd/broker/policies/parameters.py",
        "amqpd/broker/policies/policy.py",
        "amqpd/broker/policies/policy_keys.py",
        "amqpd/broker/policies/policy_table.py",
        "amqpd/broker/vhosts/queue_changes.py",
        "amqpd/broker/queues/queue_rules.py",
        "amqpd/broker/catalogue/statements.py",
        "amqpd/broker/policies/vhost_metadata.py",
        "amqpd/broker/clients/secret_checks.py",
        "amqpd/protocol/consumer_arguments.py",
        "amqpd/protocol/declaring.py",
    ),
}


def core_modules() -> list[str]:
    """Return the files to compile, in a stable order."""
    interpreted = {path for paths in INTERPRETED.values() for path in paths}
    modules = []
    for package in CORE:
        for path in sorted(Path(package).rglob("*.py")):
            # errors.py: exceptions gain nothing and lose __cause__ when compiled.
            if path.name in ("__init__.py", "errors.py"):
                continue
            if path.as_posix() not in interpreted:
                modules.append(path.as_posix())
    return modules


def can_compile() -> bool:
    """Say whether this machine can build a C extension, by building one."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text(
            "#include <Python.h>\n"
            'static struct PyModuleDef probe = {PyModuleDef_HEAD_INIT, "probe"};\n'
            "PyMODINIT_FUNC PyInit_probe(void) { return PyModule_Create(&probe); }\n"
        )
        extension = Extension("probe", [str(source)])
        command = build_ext(Distribution({"ext_modules": [extension]}))
        command.build_lib = command.build_temp = directory
        try:
            command.ensure_finalized()
            command.run()
        # Whatever a tool chain may raise means the same here: not on this machine.
        except Exception as error:  # noqa: BLE001
            print(f"amqpd: {error}", file=sys.stderr)
            return False
    return True


def extensions() -> list[Extension]:
    """Return the compiled core, or nothing for a pure build."""
    if os.environ.get("AMQPD_PURE", "0") not in ("", "0"):
        return []
    if not can_compile():
        print("amqpd: no working C compiler, the core stays Python", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    # One call for all of it: calls between modules of one group are direct. A C file
    # for each module, so that every processor can compile one.
    compiled: list[Extension] = mypycify(
        ["--config-file=", *core_modules()],
        opt_level="2",
        debug_level="0",
        multi_file=True,
    )
    return compiled


class ParallelBuild(build_ext):
    """Compiles the C files of an extension side by side; setuptools takes turns."""

    def build_extension(self, ext: Extension) -> None:
        """Compile first, a file at a time on each processor, then link."""
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], *args: Any, **kwargs: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                compiled = [
                    pool.submit(compile_one, [source], *args, **kwargs)
                    for source in sources
                ]
                return [path for objects in compiled for path in objects.result()]

        self.compiler.compile = compile_all
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_one


# pip imports this file also to ask for requirements and metadata; compiling takes a
# minute and belongs to building only.
BUILDING: Final = {
    "bdist_wheel",
    "build",
    "build_ext",
    "develop",
    "editable_wheel",
    "install",
}

setup(
    ext_modules=extensions() if BUILDING & set(sys.argv) else [],
    cmdclass={"build_ext": ParallelBuild},
)
