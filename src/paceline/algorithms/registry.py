"""Algorithms by name, each with defaults that work on the embedded data."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from paceline.algorithms.named import Named, find_own
from paceline.errors import SettingError, nearest
from paceline.references import announced

if TYPE_CHECKING:
    from paceline.algorithms.base import Algorithm


def _made(where: str, **options: Any) -> Callable[[], Algorithm]:
    """What makes the algorithm at ``module:Class``, imported only then: names and summaries need no torch."""

    def make() -> Algorithm:
        module, _, name = where.partition(":")
        return cast("Algorithm", getattr(import_module(module), name)(**options))

    return make


def _dispfl() -> Algorithm:
    from paceline.algorithms.dadpfl import DADPFL, Pruning

    return DADPFL(wait=0, pruning=Pruning(target=0.0), regrow=0.5)


ALGORITHMS: dict[str, Named] = {
    "fedavg": Named(
        _made("paceline.algorithms.psfl:PSFL", length=1, sampler="uniform"),
        "all chosen clients in parallel, then average",
    ),
    "sfl": Named(
        _made("paceline.algorithms.psfl:PSFL", width=1, sampler="uniform"),
        "sequential FL: one model rides from client to client",
    ),
    "psfl": Named(
        _made("paceline.algorithms.psfl:PSFL"),
        "W sequences of S clients abreast, W and S chosen after a warm-up (INFOCOM 2025)",
    ),
    "spfl": Named(
        _made("paceline.algorithms.spfl:SPFL"),
        "synchronous parallel FL: the server sends before it aggregates (ICML 2023)",
    ),
    "apfl": Named(
        _made("paceline.algorithms.apfl:APFL"), "asynchronous parallel FL: nobody waits (ICML 2023)", every=10
    ),
    "dga": Named(
        _made("paceline.algorithms.dga:DGA"),
        "delayed gradient averaging: devices train on while updates travel (NeurIPS 2021)",
    ),
    "mifa": Named(
        _made("paceline.algorithms.mifa:MIFA"), "the server remembers every device's last update (NeurIPS 2021)"
    ),
    "feddf": Named(
        _made("paceline.algorithms.feddf:FedDF"),
        "ensemble distillation, also across architectures (NeurIPS 2020)",
        public=0.1,
    ),
    "p-fedavg": Named(
        _made("paceline.algorithms.pfedavg:PFedAvg"),
        "many servers that average with their neighbours on an overlay (ToN 2022)",
    ),
    "hierfavg": Named(
        _made("paceline.algorithms.hierfavg:HierFAVG"),
        "a cloud above edge servers that aggregate several times between (Liu et al. 2020)",
    ),
    "dpsgd": Named(
        _made("paceline.algorithms.dpsgd:DPSGD"),
        "no server: every client averages with its neighbours (Lian et al. 2017)",
    ),
    "da-dpfl": Named(
        _made("paceline.algorithms.dadpfl:DADPFL"),
        "sparse personal models, sparser with time, fresh ones reused in the round (TNNLS)",
    ),
    "dispfl": Named(
        _dispfl,
        "sparse personal models of fixed sparsity, all clients in parallel (ICML 2022)",
    ),
    "ditto": Named(
        _made("paceline.algorithms.ditto:Ditto"),
        "a personal model beside the global one, pulled towards it (Li et al. 2021)",
    ),
    "feddst": Named(
        _made("paceline.algorithms.feddst:FedDST"),
        "one sparse model whose mask clients move and the server decides (Bibikar et al. 2022)",
    ),
    "gossipfl": Named(
        _made("paceline.algorithms.gossipfl:GossipFL"),
        "random pairs average what a shared mask covers (Tang et al. 2022)",
    ),
    "dfedavgm": Named(
        _made("paceline.algorithms.dfedavgm:DFedAvgM"),
        "momentum, quantised differences to neighbours (Sun et al. 2022)",
    ),
    "dfedsam": Named(
        _made("paceline.algorithms.dfedsam:DFedSAM"),
        "sharpness-aware local training, neighbours averaged (Shi et al. 2023)",
    ),
    "beer": Named(
        _made("paceline.algorithms.beer:BEER"), "gradient tracking with compressed differences (Zhao et al. 2022)"
    ),
    "fedasync": Named(
        _made("paceline.algorithms.fedasync:FedAsync"),
        "every arrival is mixed in at once (Xie et al. 2019)",
        every=20,
    ),
    "fedbuff": Named(
        _made("paceline.algorithms.fedbuff:FedBuff"), "asynchronous with a buffer of K updates (Nguyen et al. 2022)"
    ),
}


def algorithm_named(name: str) -> Named:
    """Look an algorithm up; an unknown name is an error that names the nearest one.

    Besides the built-in ones: what an installed package announces, and ``package.module:Class``.

    >>> algorithm_named("fedbuff").summary
    'asynchronous with a buffer of K updates (Nguyen et al. 2022)'
    """
    found = ALGORITHMS.get(name) or find_own(name)
    if found is None:
        known = (*ALGORITHMS, *announced("algorithms"))
        raise SettingError(
            f"no algorithm is called {name!r}; {nearest(name, known)} One of your own is written package.module:Class"
        )
    return found
