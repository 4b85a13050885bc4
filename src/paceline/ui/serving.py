"""Start the server: a socket of its own, a word about who can reach it, and on until somebody ends it."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from paceline.errors import SettingError

WEB = "paceline ui needs Starlette and uvicorn; install the extra `ui`; see docs/install.md"
OPEN = (
    "warning: {host} can be reached from other machines, and there is no password: whoever reaches this port can read"
    " all runs below {root} and have plans computed here. Better listen at 127.0.0.1 and come by"
    " ssh -L {port}:127.0.0.1:{port} THIS-MACHINE"
)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; ``SettingError`` says why it cannot."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with ExitStack() as unless_all_is_well:
            listening = unless_all_is_well.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(64)
            unless_all_is_well.pop_all()
    except OSError as problem:
        raise SettingError(
            f"cannot listen at {host}, port {port}: {problem.strerror}; choose another --port, or 0 for any"
        ) from None
    return listening


def serve(root: Path, host: str, port: int) -> None:
    """Serve the runs below a directory until the process is told to end."""
    if not root.is_dir():
        raise SettingError(
            f"{root} is no directory; name the one that your runs are in (paceline run writes to ./runs unless told"
            " otherwise)"
        )
    try:
        import uvicorn

        from paceline.ui.app import make_app
        from paceline.ui.crowding import Yielding
        from paceline.ui.guarding import Gate
    except ModuleNotFoundError as missing:
        raise SettingError(f"{WEB} ({missing.name} is not there)") from None
    gate = Gate(host)
    listening = bind(host, port)
    chosen = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    if gate.is_open:
        print(OPEN.format(host=host, root=root, port=chosen), flush=True)
    print(f"paceline ui: http://{shown}:{chosen}/ shows the runs below {root}; Ctrl-C ends it", flush=True)
    config = uvicorn.Config(
        make_app(root, gate),
        log_config=None,  # whoever started this keeps the say over logs
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        http=Yielding,
        loop="asyncio",
        limit_concurrency=100,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listening])
