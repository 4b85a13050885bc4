"""Whether Theorem 7 of No One Idles speaks of a run of APFL: conditions on clock, devices, staleness (NI-E11)."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.ledger.events import Event


@dataclass(frozen=True, kw_only=True)
class Asynchrony:
    """What the theorem asks about: T, N and δ."""

    uploads: int
    """T, the clock at the end: uploads that were aggregated."""
    devices: int
    """N."""
    staleness: int
    """δ, the largest of all uploads, as the paper counts: an update of the very last model has 1."""

    @property
    def long_enough(self) -> bool:
        """The first condition: T > N³."""
        return self.uploads > self.devices**3

    @property
    def most(self) -> float:
        """The second condition's bound on δ: T^(1/4)/N^(3/4)."""
        return float(self.uploads**0.25 / self.devices**0.75)

    @property
    def holds(self) -> bool:
        """Whether both conditions hold."""
        return self.long_enough and self.staleness <= self.most

    def event(self) -> Event:
        """Tell whether they hold; it is a remark, for a run may well converge where the theorem is silent."""
        verdict = "hold" if self.holds else "do not hold"
        first, second = (">" if self.long_enough else "<="), ("<=" if self.staleness <= self.most else ">")
        text = (
            f"the conditions of APFL's convergence theorem (NI-E11) {verdict} for this run:"
            f" uploads T = {self.uploads:,} {first} {self.devices**3:,} = N^3 with N = {self.devices:,} devices;"
            f" the largest staleness {self.staleness:,} {second} {self.most:.3g} = T^(1/4)/N^(3/4)"
        )
        figures = {
            "uploads": self.uploads,
            "devices": self.devices,
            "staleness": self.staleness,
            "most_staleness": self.most,
            "holds": self.holds,
        }
        return Event(text=text, figures=figures)
