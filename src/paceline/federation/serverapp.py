"""What Flower starts for a run: it makes the run from the server's file, and drives it."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()
GLANCE, PARTING = 0.5, 15.0
"""Seconds between two looks at whether whoever started this is there, and in which it must then have ended."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run it to its end, or go on with it."""
    from paceline.federation.conducting import conduct

    parent = os.getppid()
    end_with(parent)
    try:
        conduct(grid, Path(str(context.run_config["server"])), str(context.run_config["attempt"]))
    finally:
        if os.getppid() != parent:  # all is written down, and Flower would look for its SuperLink for long
            os._exit(1)


def end_with(parent: int) -> None:
    """Be asked to end when whoever started this process is gone, however it went: nobody would end it otherwise."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(GLANCE)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PARTING)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
