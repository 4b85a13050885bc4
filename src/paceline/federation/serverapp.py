"""What Flower starts for a run: it makes the run from the server's file, and drives it."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run it to its end, or go on with it."""
    from paceline.federation.conducting import conduct

    conduct(grid, Path(str(context.run_config["server"])), str(context.run_config["attempt"]))
