"""Log records as text and as JSON."""

import json
import logging
import sys
import time

from amqpd.logs import JsonFormatter, TextFormatter


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "amqpd.net", "msg": message, "levelno": 20, "levelname": "INFO"}
    )
    made.__dict__.update(fields)
    return made


def failing_record() -> logging.LogRecord:
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        return record("it failed", exc_info=sys.exc_info())


def test_text_is_time_level_and_message() -> None:
    line = TextFormatter().format(record("accepted"))
    assert line.endswith(" [info] accepted")
    assert line[10] == " "
    assert line[19] == "."


def test_text_shows_the_time_of_each_record_to_the_millisecond() -> None:
    formatter = TextFormatter()
    formatter.converter = time.gmtime
    moments = [1000000000.25, 1000000000.999, 1000000001.0, 1000000000.007]
    shown = []
    for moment in moments:
        milliseconds = round(moment % 1 * 1000)
        shown.append(
            formatter.format(record("x", created=moment, msecs=milliseconds)).split()[1]
        )
    assert shown == ["01:46:40.250", "01:46:40.999", "01:46:41.000", "01:46:40.007"]


def test_text_has_the_traceback_below_the_message() -> None:
    lines = TextFormatter().format(failing_record()).splitlines()
    assert lines[0].endswith("it failed")
    assert lines[-1] == "RuntimeError: broken"


def test_json_is_one_line_with_the_extra_fields() -> None:
    line = JsonFormatter().format(record('said "hi"\n', connection="a -> b", count=2))
    assert "\n" not in line
    fields = json.loads(line)
    assert fields["message"] == 'said "hi"\n'
    assert fields["level"] == "info"
    assert fields["logger"] == "amqpd.net"
    assert fields["connection"] == "a -> b"
    assert fields["count"] == 2
    assert fields["time"].endswith("+00:00")
    assert len(fields) == 6


def test_json_has_the_traceback_in_a_field() -> None:
    fields = json.loads(JsonFormatter().format(failing_record()))
    assert fields["traceback"].endswith("RuntimeError: broken")


def test_json_writes_what_it_has_no_form_for_as_text() -> None:
    fields = json.loads(JsonFormatter().format(record("x", reason=ValueError("no"))))
    assert fields["reason"] == "no"
