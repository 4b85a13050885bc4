"""What happened, when, and what it cost: spans, metrics, run directories."""

from paceline.ledger.spans import NO_SITE, Kind, Ledger, Totals

__all__ = ["Kind", "Ledger", "Totals", "NO_SITE"]
