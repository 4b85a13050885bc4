"""What Flower starts on a node for every message: it passes the message to the resident worker, and the answer back.

A new process does this each time, so nothing is imported here that takes long: torch, data and models are with the
worker (``resident``), which stays. Should the worker die in the middle, the same words are said to the next one.
"""

from __future__ import annotations

import socket
import time

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from paceline.errors import WireError
from paceline.federation.records import from_records, to_records
from paceline.worlds.local.frames import Frame, read, write

PATIENCE, AGAIN = 90.0, 0.1
"""Seconds for which a worker that is not there is waited for, and after which it is tried again."""

app = ClientApp()


@app.query()
def pass_on(message: Message, context: Context) -> Message:
    """Ask the worker, and reply what it says."""
    arrived = time.time()
    try:
        frame = from_records(message.content, int(context.node_config["bytes"]))
        reply = ask(str(context.node_config["socket"]), frame)
    except WireError as problem:
        reply = Frame({"error": f"the node refuses this: {problem}"})
    words = {**reply.words, "times": {**reply.words.get("times", {}), "arrived": arrived, "left": time.time()}}
    return Message(to_records(words, reply.blobs), reply_to=message)


def ask(path: str, frame: Frame, patience: float = PATIENCE) -> Frame:
    """What the worker behind a socket answers; a worker that is started anew is asked again."""
    until = time.monotonic() + patience
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                until = time.monotonic() + patience  # it is there
                write(connection, frame.words, frame.blobs)
                if (reply := read(connection)) is not None:
                    return reply
        except OSError as problem:
            if time.monotonic() > until:
                raise RuntimeError(f"the resident worker does not answer: {problem}") from None
        time.sleep(AGAIN)
