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
GLANCE = 0.5
"""Seconds between two looks at whether whoever started this is there."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run it to its end, or go on with it."""
    from paceline.federation.conducting import conduct

    end_with_parent(os.getppid())
    conduct(grid, Path(str(context.run_config["server"])), str(context.run_config["attempt"]))


def end_with_parent(parent: int) -> threading.Thread:
    """Be asked to end when whoever started this process is gone, however it went: nobody would end it otherwise."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(GLANCE)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread
