"""One self-contained HTML page about finished runs; it reads run directories and nothing else."""

from paceline.report.page import write_report

__all__ = ["write_report"]
