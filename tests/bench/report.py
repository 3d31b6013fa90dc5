"""What was measured, as tables for people and as JSON for programs.

First the table of targets, a line for each figure that has one:

    what is asked of us    amqpd's figure, the target, whether it is met
    beside each peer       its figure, and how many times better amqpd's is; of RabbitMQ
                           that must be so many times, which is a target as well

Then all figures of each load. Figures are medians over the repeats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from tests.bench.figures import (
    BUSY,
    CPU,
    Figures,
    Limit,
    at_least,
    at_most,
    medians,
    readable,
    times_better,
)
from tests.bench.scenario import Scenario
from tests.bench.scenarios import SCENARIOS

STRANGERS: Final = "strangers_cores"
#: What our own broker is called.
OURS: Final = "amqpd"
#: Whoever is called so is who the multiples are about.
REFERENCE: Final = "RabbitMQ"
#: What every load must keep, whatever else it is about.
EVERYWHERE: Final[Mapping[str, Limit]] = {BUSY: at_most(20)}


@dataclass(frozen=True)
class Row:
    """One figure beside what is asked of it."""

    letter: str
    scenario: str
    figure: str
    ours: float
    limit: str
    is_met: bool | None
    #: By peer: its figure, and how many times better ours is.
    peers: dict[str, tuple[float, float | None]]
    multiple: str
    is_multiple_met: bool | None
    strangers: float | None


@dataclass
class Report:
    """All runs of all scenarios, by scenario and broker."""

    facts: dict[str, str]
    runs: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    #: What could not be measured, and why.
    failures: list[str] = field(default_factory=list)

    def add(self, scenario: str, broker: str, figures: Figures) -> None:
        """Take in the figures of one run."""
        self.runs.setdefault(scenario, {}).setdefault(broker, []).append(figures)

    def missed(self) -> list[str]:
        """Return the figures of our broker that are on the wrong side of a limit."""
        found: list[str] = []
        for row in self.rows():
            said = f"{row.scenario}: {row.figure} {readable(row.ours)}"
            if row.is_met is False:
                found.append(f"{said}, {row.limit}")
            if row.is_multiple_met is False:
                found.append(f"{said}, {row.multiple} of {REFERENCE}")
        return found

    def rows(self) -> list[Row]:
        """Return what is asked, scenario by scenario, and what there is."""
        return [row for name in self.runs for row in self._rows_of(name)]

    def markdown(self) -> str:
        """Return the table of targets, then all figures of each load."""
        lines = [f"- {name}: {value}" for name, value in self.facts.items()]
        rows = self.rows()
        if rows:
            lines += ["", *_targets(rows)]
        for name in self.runs:
            lines += ["", f"**{name}**: {SCENARIOS[name].what}", ""]
            lines += _all_figures(self._medians(name))
        if self.failures:
            lines += ["", "Not measured:", ""]
            lines += [f"- {failure}" for failure in self.failures]
        return "\n".join(lines)

    def brief(self) -> str:
        """Return a line for each load, of figures that nothing is asked of."""
        lines = [f"{name}: {value}" for name, value in self.facts.items()]
        for name in self.runs:
            ours = self._medians(name).get(OURS, {})
            said = ", ".join(f"{figure} {readable(ours[figure])}" for figure in ours)
            lines.append(f"{name}: {said}")
        return "\n".join([*lines, *self.failures])

    def json(self) -> str:
        """Return everything, each run by itself, as JSON."""
        return json.dumps(
            {
                "machine": self.facts,
                "targets": [asdict(row) for row in self.rows()],
                "runs": self.runs,
                "failures": self.failures,
            }
        )

    def _medians(self, name: str) -> dict[str, Figures]:
        """Return the figures by broker, with the price beside the nearest load's."""
        figures = {broker: medians(runs) for broker, runs in self.runs[name].items()}
        nearest = SCENARIOS[name].nearest
        beside = self.runs.get(nearest.scenario, {}) if nearest else {}
        for broker, own in figures.items():
            if nearest is None or broker not in beside:
                continue
            price = medians(beside[broker]).get(CPU, 0.0) * nearest.messages
            if price and CPU in own:
                own[nearest.figure] = own[CPU] / price
        return figures

    def _rows_of(self, name: str) -> list[Row]:
        scenario, brokers = SCENARIOS[name], self._medians(name)
        ours = brokers.pop(OURS, {})
        limits = limits_of(scenario)
        judged = _judged(scenario, limits, ours)
        rows: list[Row] = []
        # The price is told even where only its ratio to another is asked about.
        prices = [CPU] if scenario.nearest is not None else []
        for figure in dict.fromkeys([*prices, *limits, *scenario.multiples]):
            if figure not in ours:
                continue
            beside = {
                peer: (
                    theirs[figure],
                    times_better(figure, ours[figure], theirs[figure]),
                )
                for peer, theirs in brokers.items()
                if figure in theirs
            }
            asked = scenario.multiples.get(figure)
            rows.append(
                Row(
                    scenario.letter,
                    name,
                    figure,
                    ours[figure],
                    str(limits.get(figure, "")),
                    judged.get(figure),
                    beside,
                    f"{at_least(asked)} x" if asked else "",
                    _is_multiple_met(asked, beside),
                    ours.get(STRANGERS),
                )
            )
        return rows


def limits_of(scenario: Scenario) -> dict[str, Limit]:
    """Return all limits of a scenario, those that every scenario has at the end."""
    limits = dict(scenario.limits)
    if scenario.nearest is not None:
        limits[scenario.nearest.figure] = at_most(scenario.nearest.times_max)
    return limits | dict(EVERYWHERE)


def _judged(
    scenario: Scenario, limits: Mapping[str, Limit], ours: Figures
) -> dict[str, bool]:
    """Return which of the limits are met, as far as they were measured."""
    judged = {
        figure: limit.is_met_by(ours[figure])
        for figure, limit in limits.items()
        if figure in ours
    }
    if scenario.is_one_enough:
        own = [figure for figure in scenario.limits if figure in judged]
        judged |= dict.fromkeys(own, any(judged[figure] for figure in own))
    return judged


def _is_multiple_met(
    asked: float | None, beside: dict[str, tuple[float, float | None]]
) -> bool | None:
    reached = [
        times
        for peer, (_, times) in beside.items()
        if peer.startswith(REFERENCE) and times is not None
    ]
    if asked is None or not reached:
        return None
    return min(reached) >= asked


def _targets(rows: list[Row]) -> list[str]:
    peers = list(dict.fromkeys(peer for row in rows for peer in row.peers))
    titles = ["", "load", "figure", "amqpd", "target", "met"]
    for peer in peers:
        titles += [peer, "times better"]
    if peers:
        titles += ["target", "met"]
    titles.append("strangers' cores")
    lines = [_line(titles), _line(["---"] * 3 + ["--:"] * (len(titles) - 3))]
    for row in rows:
        cells = [row.letter, row.scenario, row.figure, readable(row.ours)]
        cells += [row.limit, _yes_no(row.is_met)]
        for peer in peers:
            cells += map(_cell, row.peers.get(peer, (None, None)))
        if peers:
            cells += [row.multiple, _yes_no(row.is_multiple_met)]
        cells.append(_cell(row.strangers))
        lines.append(_line(cells))
    return lines


def _all_figures(brokers: dict[str, Figures]) -> list[str]:
    lines = [_line(["figure", *brokers]), _line(["---"] + ["--:"] * len(brokers))]
    for figure in dict.fromkeys(name for each in brokers.values() for name in each):
        values = [figures.get(figure) for figures in brokers.values()]
        lines.append(_line([figure, *map(_cell, values)]))
    return lines


def _cell(value: float | None) -> str:
    return "" if value is None else readable(value)


def _yes_no(is_met: bool | None) -> str:
    return {True: "yes", False: "**no**", None: ""}[is_met]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
