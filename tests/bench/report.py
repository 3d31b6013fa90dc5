"""What was measured, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.bench.figures import Figures, medians, readable
from tests.bench.scenarios import SCENARIOS

STRANGERS: str = "strangers_cores"


@dataclass
class Report:
    """All runs of all scenarios, by scenario and broker."""

    facts: dict[str, str]
    runs: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)

    def add(self, scenario: str, broker: str, figures: Figures) -> None:
        """Take in the figures of one run."""
        self.runs.setdefault(scenario, {}).setdefault(broker, []).append(figures)

    def missed(self) -> list[str]:
        """Return the figures of our broker that are on the wrong side of a limit."""
        found: list[str] = []
        for name, brokers in self.runs.items():
            ours = medians(next(iter(brokers.values())))
            for figure, limit in SCENARIOS[name].limits.items():
                if figure in ours and not limit.is_met_by(ours[figure]):
                    found.append(f"{name}: {figure} {readable(ours[figure])}, {limit}")
        return found

    def markdown(self) -> str:
        """Return the table: the first broker, its limits, and the peer if any."""
        lines = [f"- {name}: {value}" for name, value in self.facts.items()]
        for name, brokers in self.runs.items():
            lines += ["", f"**{name}**: {SCENARIOS[name].what}", ""]
            lines += _rows(name, {key: medians(runs) for key, runs in brokers.items()})
        return "\n".join(lines)

    def json(self) -> str:
        """Return everything, each run by itself, as JSON."""
        return json.dumps({"machine": self.facts, "runs": self.runs})


def _rows(scenario: str, brokers: dict[str, Figures]) -> list[str]:
    first, *peers = brokers
    ours = brokers[first]
    limits = SCENARIOS[scenario].limits
    titles = ["figure", first, "must be"]
    for peer in peers:
        titles += [peer, "ratio"]
    lines = [_row(titles), _row(["---"] + ["--:"] * (len(titles) - 1))]
    for figure, value in ours.items():
        cells = [figure, readable(value), str(limits.get(figure, ""))]
        for peer in peers:
            theirs = brokers[peer].get(figure)
            known = theirs is not None
            cells.append(readable(theirs) if theirs is not None else "")
            cells.append(readable(value / theirs) if known and theirs else "")
        lines.append(_row(cells))
    return lines


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
