"""What happened, when, and what it cost: spans, metrics, run directories."""

from paceline.ledger.spans import NOBODY, Kind, Ledger, Totals

__all__ = ["Kind", "Ledger", "Totals", "NOBODY"]
