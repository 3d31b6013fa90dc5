"""What the broker says of itself: status, version, listeners, alarms, memory.

Facts that a broker does not state are left out, so that one page fits every version.
"""

from __future__ import annotations

from typing import Any, Final

from amqpd import __version__
from amqpd.cli.ctl.errors import EXIT_UNAVAILABLE, Failure, Refused, Unreachable
from amqpd.cli.ctl.table import Answer, Document, Sections, Table
from amqpd.cli.ctl.verb import Call, Verb

NONE: Final = "(none)"
_PURPOSES: Final = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS",
    "http/prometheus": "Prometheus exporter API over HTTP",
    "clustering": "inter-node and CLI tool communication",
}


def node_of(call: Call, overview: dict[str, Any]) -> dict[str, Any]:
    """Return the node that answers, as the API describes it.

    Raises:
        Failure: the API names none.
    """
    nodes: list[dict[str, Any]] = call.api.get("nodes")
    for node in nodes:
        if node["name"] == overview["node"]:
            return node
    raise Failure(f"{call.api.place} does not list its node {overview['node']}")


def node_name(call: Call) -> str:
    """Return what the node that answers is called."""
    return str(call.api.get("overview")["node"])


def alarms_of(node: dict[str, Any]) -> list[str]:
    """Return the resources that have run short."""
    resources = {"mem_alarm": "memory", "disk_free_alarm": "disk"}
    return [name for key, name in resources.items() if node.get(key)]


def alarm_lines(node: dict[str, Any]) -> list[str]:
    """Return a line for each alarm."""
    texts = {
        "memory": f"Memory alarm on node {node['name']}",
        "disk": f"Free disk space alarm on node {node['name']}",
    }
    return [texts[resource] for resource in alarms_of(node)] or [NONE]


def listeners_of(overview: dict[str, Any]) -> list[dict[str, Any]]:
    """Return where the node that answers listens, as `rabbitmqctl` describes it."""
    return [
        {
            "node": each["node"],
            "interface": _interface(each["ip_address"]),
            "port": each["port"],
            "protocol": each["protocol"],
            "purpose": _PURPOSES.get(each["protocol"], each["protocol"]),
        }
        for each in overview["listeners"]
        if each["node"] == overview["node"]
    ]


def _interface(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def listener_lines(overview: dict[str, Any]) -> list[str]:
    """Return a line for each listener."""
    return [
        f"Interface: {each['interface']}, port: {each['port']}, "
        f"protocol: {each['protocol']}, purpose: {each['purpose']}"
        for each in listeners_of(overview)
    ]


def ping(call: Call) -> Answer:
    """Say that the broker answers, and knows who asks."""
    call.api.get("whoami")
    return "Ping succeeded"


def version(call: Call) -> Answer:
    """Return the version of this command; nobody is asked.

    Scripts that ask RabbitMQ's tool want to know what the broker can do.
    """
    return str(server_version(call)) if call.is_rabbitmqctl else __version__


def server_version(call: Call) -> Answer:
    """Return the version that the broker says clients may rely on."""
    return str(call.api.get("overview")["rabbitmq_version"])


def product_info(call: Call) -> Answer:
    """Return what the broker is called."""
    overview = call.api.get("overview")
    lines = [
        f"Product name: {overview['product_name']}",
        f"Product version: {overview['product_version']}",
    ]
    return Sections((("Product", lines),), overview)


def overview(call: Call) -> Answer:
    """Return the totals as the API has them."""
    return Document(call.api.get("overview"))


def whoami(call: Call) -> Answer:
    """Return who asks."""
    return Table(("name", "tags"), [call.api.get("whoami")])


def listeners(call: Call) -> Answer:
    """Return where the broker listens."""
    overview = call.api.get("overview")
    if call.is_rabbitmqctl and not call.said.formatter:
        return "\n".join(listener_lines(overview))
    columns = ("node", "interface", "port", "protocol", "purpose")
    return Table(columns, listeners_of(overview))


def alarms(call: Call) -> Answer:
    """Return what has run short."""
    node = node_of(call, call.api.get("overview"))
    if alarms_of(node):
        return "\n".join(alarm_lines(node))
    return f"Node {node['name']} reported no alarms, local or clusterwide"


def memory_breakdown(call: Call) -> Answer:
    """Return what memory is used for."""
    memory = call.api.get("nodes", node_name(call), "memory")["memory"]
    total = memory["total"]
    whole = max(total.values()) if isinstance(total, dict) else total
    rows = [
        {"what": key, "bytes": size, "percent": round(100 * size / max(whole, 1), 2)}
        for key, size in memory.items()
        if isinstance(size, int)
    ]
    rows.sort(key=lambda row: -int(row["bytes"]))
    return Table(("what", "bytes", "percent"), rows)


def environment(call: Call) -> Answer:
    """Return the effective configuration."""
    settings = call.api.get("config", "effective")
    if isinstance(settings, list):
        return Table(("key", "value", "origin"), settings)
    return Document(settings)


def list_feature_flags(call: Call) -> Answer:
    """Return which feature flags there are."""
    flags = call.api.get("feature-flags")
    return Table(("name", "state"), flags)


def enable_feature_flag(call: Call) -> Answer:
    """Enable one, or all: what is there is always enabled."""
    name = call.said.flag
    flags = call.api.get("feature-flags")
    if name != "all" and all(flag["name"] != name for flag in flags):
        raise Failure(f"The specified feature flag '{name}' is unsupported", 65)
    for flag in flags:
        if name in ("all", flag["name"]) and flag["state"] == "disabled":
            call.api.put("feature-flags", flag["name"], "enable", body={})
    return None


def is_running(call: Call) -> bool:
    """Say whether the broker is up and serves."""
    try:
        call.api.get("overview")
    except Unreachable:
        return False
    except Refused as error:
        if error.status == 503:
            return False
        raise
    return True


def is_booting(call: Call) -> Answer:
    """Say whether the broker is about to serve: never, its port opens when it does."""
    return f"{call.api.place} is not booting"


def report_running(call: Call) -> Answer:
    """Say whether the broker runs, without failing."""
    if is_running(call):
        return f"RabbitMQ on node {node_name(call)} is fully booted and running"
    return f"RabbitMQ at {call.api.place} is not running"


def check_running(call: Call) -> Answer:
    """Fail if the broker does not run."""
    if not is_running(call):
        hint = "amqpctl start_app, or start the broker"
        text = f"the broker at {call.api.place} is not running"
        raise Failure(text, EXIT_UNAVAILABLE, hint)
    return report_running(call)


VERBS: Final = (
    Verb("ping", ping, "say whether the broker answers", banner="Pinging ..."),
    Verb("version", version, "the version of this command"),
    Verb(
        "server_version",
        server_version,
        "the version of RabbitMQ that the broker is compatible with",
        banner="Asking for the RabbitMQ version...",
    ),
    Verb("product_info", product_info, "what the broker is called"),
    Verb("overview", overview, "totals, as the HTTP API has them"),
    Verb("whoami", whoami, "the user who asks"),
    Verb(
        "listeners",
        listeners,
        "where the broker listens",
        banner="Asking for protocol listeners ...",
    ),
    Verb(
        "alarms",
        alarms,
        "what has run short",
        banner="Asking for resource alarms ...",
    ),
    Verb("memory_breakdown", memory_breakdown, "what memory is used for"),
    Verb("environment", environment, "the effective configuration"),
    Verb("list_feature_flags", list_feature_flags, "feature flags"),
    Verb("enable_feature_flag", enable_feature_flag, "enable one, or all", "flag"),
    Verb("is_running", report_running, "say whether it runs; never fails for that"),
    Verb("is_booting", is_booting, "say whether it is starting; never fails for that"),
    Verb(
        "check_running",
        check_running,
        "fail if the broker does not run",
        banner="Checking if RabbitMQ is running ...",
    ),
)
