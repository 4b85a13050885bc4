"""Algorithms by name, each with defaults that work on the embedded data."""

from __future__ import annotations

from paceline.algorithms.apfl import APFL
from paceline.algorithms.beer import BEER
from paceline.algorithms.dadpfl import DADPFL, Pruning
from paceline.algorithms.dfedavgm import DFedAvgM
from paceline.algorithms.dfedsam import DFedSAM
from paceline.algorithms.dga import DGA
from paceline.algorithms.ditto import Ditto
from paceline.algorithms.dpsgd import DPSGD
from paceline.algorithms.fedasync import FedAsync
from paceline.algorithms.fedbuff import FedBuff
from paceline.algorithms.feddf import FedDF
from paceline.algorithms.feddst import FedDST
from paceline.algorithms.gossipfl import GossipFL
from paceline.algorithms.hierfavg import HierFAVG
from paceline.algorithms.mifa import MIFA
from paceline.algorithms.named import Named, find_own
from paceline.algorithms.pfedavg import PFedAvg
from paceline.algorithms.psfl import PSFL
from paceline.algorithms.spfl import SPFL
from paceline.errors import SettingError, nearest
from paceline.references import announced

ALGORITHMS: dict[str, Named] = {
    "fedavg": Named(lambda: PSFL(length=1, sampler="uniform"), "all chosen clients in parallel, then average"),
    "sfl": Named(lambda: PSFL(width=1, sampler="uniform"), "sequential FL: one model rides from client to client"),
    "psfl": Named(PSFL, "W sequences of S clients abreast, W and S chosen after a warm-up (INFOCOM 2025)"),
    "spfl": Named(SPFL, "synchronous parallel FL: the server sends before it aggregates (ICML 2023)"),
    "apfl": Named(APFL, "asynchronous parallel FL: nobody waits (ICML 2023)", every=10),
    "dga": Named(DGA, "delayed gradient averaging: devices train on while updates travel (NeurIPS 2021)"),
    "mifa": Named(MIFA, "the server remembers every device's last update (NeurIPS 2021)"),
    "feddf": Named(FedDF, "ensemble distillation, also across architectures (NeurIPS 2020)", public=0.1),
    "p-fedavg": Named(PFedAvg, "many servers that average with their neighbours on an overlay (ToN 2022)"),
    "hierfavg": Named(HierFAVG, "a cloud above edge servers that aggregate several times between (Liu et al. 2020)"),
    "dpsgd": Named(DPSGD, "no server: every client averages with its neighbours (Lian et al. 2017)"),
    "da-dpfl": Named(DADPFL, "sparse personal models, sparser with time, fresh ones reused in the round (TNNLS)"),
    "dispfl": Named(
        lambda: DADPFL(wait=0, pruning=Pruning(target=0.0), regrow=0.5),
        "sparse personal models of fixed sparsity, all clients in parallel (ICML 2022)",
    ),
    "ditto": Named(Ditto, "a personal model beside the global one, pulled towards it (Li et al. 2021)"),
    "feddst": Named(FedDST, "one sparse model whose mask clients move and the server decides (Bibikar et al. 2022)"),
    "gossipfl": Named(GossipFL, "random pairs average what a shared mask covers (Tang et al. 2022)"),
    "dfedavgm": Named(DFedAvgM, "momentum, quantised differences to neighbours (Sun et al. 2022)"),
    "dfedsam": Named(DFedSAM, "sharpness-aware local training, neighbours averaged (Shi et al. 2023)"),
    "beer": Named(BEER, "gradient tracking with compressed differences (Zhao et al. 2022)"),
    "fedasync": Named(FedAsync, "every arrival is mixed in at once (Xie et al. 2019)", every=20),
    "fedbuff": Named(FedBuff, "asynchronous with a buffer of K updates (Nguyen et al. 2022)"),
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
