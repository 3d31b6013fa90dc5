"""Values as RabbitMQ's texts show them: in Erlang's syntax.

A text of RabbitMQ's that refuses a value repeats it, so `<<"x">> is not a valid maximum
length`. People search for these texts, and tests of client libraries look for them.
"""


def erlang_term(value: object) -> str:
    """Return a value that came as JSON, as Erlang would print it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{escaped}">>'
    if isinstance(value, list):
        return "[" + ",".join([erlang_term(one) for one in value]) + "]"
    if isinstance(value, dict):
        return erlang_pairs(value)
    return str(value)


def erlang_pairs(fields: dict[str, object]) -> str:
    """Return an object as the list of pairs that RabbitMQ makes of it."""
    pairs = [
        f"{{{erlang_term(key)},{erlang_term(value)}}}"
        for key, value in sorted(fields.items())
    ]
    return "[" + ",".join(pairs) + "]"
