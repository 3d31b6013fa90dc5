"""The core takes as many instructions per message as it did: see the baseline.

A slower core is a defect like a wrong one, and timings on a shared machine do not show
it. Where callgrind or the compiled build is missing, or where nobody has made a
baseline for this kind of Python, that is printed and nothing is compared. Counting
takes some 15 s, and as much longer as the machine is busy.
"""

from __future__ import annotations

import pytest

from tests.bench import instructions

REMEDY = "if that is meant: python -m tests.bench.instructions --update, and commit it"


@pytest.mark.timeout(600)
def test_a_message_takes_as_many_instructions_as_the_baseline_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = instructions.obstacle()
    measured = {} if reason else instructions.measure()
    expected = instructions.baseline()
    if reason is None and expected is None:
        reason = f"no baseline for {instructions.kind_of_python()}, got {measured}"
    with capsys.disabled():
        if reason is not None:
            print(f"\ninstructions per message are not compared: {reason}")
        else:
            lines = instructions.comparison(measured, expected or {})
            print("\n" + "\n".join(lines.values()))
    changed = instructions.changed(measured, expected) if expected else []
    assert not changed, f"{changed}; {REMEDY}"


def test_a_change_by_more_than_its_share_is_told_with_both_numbers() -> None:
    baseline = dict.fromkeys(("transient", "persistent"), 100.0)
    for measured, told in (
        ({"transient": 94.0, "persistent": 109.0}, "transient: 94"),
        ({"transient": 104.0, "persistent": 111.0}, "persistent: 111"),
    ):
        (changed,) = instructions.changed(measured, baseline)
        assert changed.startswith(f"{told} instructions per message, baseline 100 (")
