"""A crew on Ray: actors of this machine's own cluster, or of one that is given."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from typing import Any

import torch

from paceline.errors import SettingError, SiteError
from paceline.learn.crew.hand import Hand
from paceline.learn.crew.parcel import Parcel, Results
from paceline.learn.crew.trainer import Ticket

AHEAD = 2
"""Parcels that an actor has at a time: while it computes one, the next is on its way."""
BACK, AGAIN = 60.0, 0.2
"""Seconds that an actor may take to come back before it is taken to be lost for good, and after which it is asked."""


class Actor:
    """What runs in an actor's process."""

    def __init__(self, device: str) -> None:
        import ray

        self._device = device
        self._hand = Hand(device, lambda reference: ray.get(reference[0]))

    def ready(self) -> tuple[str, int, float]:
        """Its version of torch, the number of its process, and the bytes of its GPU."""
        gpu = torch.cuda.get_device_properties(0).total_memory if self._device == "cuda" else 0.0
        return torch.__version__, os.getpid(), gpu

    def compute(self, parcel: Parcel, shared: dict[str, Any]) -> Results:
        """Compute one cohort on this worker."""
        return self._hand.compute(parcel, shared)


class RayCrew:
    """Actors that pull parcels; one that dies is started again by Ray, and has forgotten everything."""

    def __init__(self, ray: Any, actors: list[Any], *, ours: bool = False) -> None:
        self._ray = ray
        self._actors = actors
        self._ours = ours
        """Whether the cluster ends with the crew."""
        self._busy: Counter[int] = Counter()
        self._flying: dict[Any, int] = {}
        """What was asked, of which actor."""
        self._away: dict[int, float] = {}
        """Who was lost, and when."""
        self._coming: dict[Any, int] = {}
        """Whether they are back was asked."""
        self._shared: dict[str, list[Any]] = {}
        told = self._ray.get([actor.ready.remote() for actor in self._actors])
        for version, _, _ in told:
            if version != torch.__version__:
                raise SettingError(
                    f"a worker of the cluster has torch {version} and this process {torch.__version__}: results would"
                    " depend on who computes what; install the same version everywhere"
                )
        self.pids = [pid for _, pid, _ in told]
        self.gpu_memory = min(gpu for _, _, gpu in told)

    def share(self, name: str, thing: Any) -> None:
        """In the cluster's object store, once."""
        if name not in self._shared:
            self._shared[name] = [self._ray.put(thing)]  # in a list, so that Ray does not fetch it for every call

    def hand_out(self, parcel: Parcel) -> Ticket | None:
        """To whoever has least to do."""
        if len(self._away) == len(self._actors) and not self._coming:
            raise SiteError("no worker of the cluster is left; look at what Ray says of its nodes: ray status")
        able = [k for k in range(len(self._actors)) if k not in self._away and self._busy[k] < AHEAD]
        if not able:
            return None
        chosen = min(able, key=lambda k: self._busy[k])
        shared = {name: self._shared[name] for name in (parcel.space, parcel.data)}
        reference: Ticket = self._actors[chosen].compute.remote(parcel, shared)
        self._flying[reference] = chosen
        self._busy[chosen] += 1
        return reference

    def next(self) -> tuple[Ticket, Results | None] | None:
        """The first that is done, or lost; None if one of the crew came back instead."""
        (done,), _ = self._ray.wait([*self._flying, *self._coming], num_returns=1)
        if done in self._coming:
            self._see(done)
            return None
        actor = self._flying.pop(done)
        self._busy[actor] -= 1
        try:
            return done, self._ray.get(done)
        except self._ray.exceptions.RayActorError:  # also where it only cannot be reached
            self._miss(actor)
            return done, None
        except self._ray.exceptions.RayTaskError as problem:
            raise problem.cause from problem

    def _miss(self, actor: int) -> None:
        """Ask nothing more of an actor until it says that it is back."""
        if actor not in self._away:
            self._away[actor] = time.monotonic()
            self._coming[self._actors[actor].ready.remote()] = actor

    def _see(self, reference: Any) -> None:
        """Whether an actor is back; else it is asked again, for a while."""
        actor = self._coming.pop(reference)
        try:
            _, self.pids[actor], _ = self._ray.get(reference)
            del self._away[actor]
        except self._ray.exceptions.RayActorError:
            if time.monotonic() < self._away[actor] + BACK:
                time.sleep(AGAIN)
                self._coming[self._actors[actor].ready.remote()] = actor

    def close(self) -> None:
        """End the actors, and the cluster if it is our own."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._ours:
            self._ray.shutdown()


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise SettingError("executor.name=ray needs Ray; install the extra `ray`; see docs/install.md") from None
    return ray


def start_crew(address: str | None, workers: int | None) -> RayCrew:
    """Actors on a cluster, or on one of this machine's own that ends with them."""
    ray = _imported()
    ours = not ray.is_initialized()
    if ours:
        _join(ray, address, workers)
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    options = {"num_cpus": 0 if gpus else 1, "num_gpus": 1 if gpus else 0, "max_restarts": -1}
    kind = ray.remote(Actor).options(**options)
    count = workers or gpus or int(resources.get("CPU", 1))
    return RayCrew(ray, [kind.remote("cuda" if gpus else "cpu") for _ in range(count)], ours=ours)


def _join(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect to a cluster, and restore the handler of SIGTERM: Ray's would end this process with its own status."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        _begin(ray, address, workers)
    except SystemExit:
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _begin(ray: Any, address: str | None, workers: int | None) -> None:
    quiet = {"log_to_driver": False, "configure_logging": False}
    if address is None:
        cpus = workers or os.cpu_count() or 1
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
        return
    try:
        _knock(address)
        ray.init(address=address, **quiet)
    except (OSError, ValueError, ImportError, RuntimeError) as problem:
        raise SettingError(
            f"executor.cluster is {address!r}, where no Ray cluster answers ({problem}); wanted HOST:PORT of its head"
            " node, or `auto` on a machine of the cluster"
        ) from None


def _knock(address: str) -> None:
    """Whether anybody is there: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        with socket.create_connection((host.rpartition("/")[2], int(port)), timeout=5.0):
            return
