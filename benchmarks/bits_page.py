"""``docs/bits.md`` from what ``benchmarks.bits`` found: ``python -m benchmarks.bits_page > docs/bits.md``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "docs" / "results"
RESUMING = Path("docs/resume.md").name
"""As the page, which is beside it, calls it."""
NETWORK = ("cohort", "order", "company", "threads", "probes", "scores")
ALGORITHM = ("cohort", "flush", "threads", "beside")
HEAD = """# Which results have the same bits

This page is written by a program, and every figure in its tables is measured:

    python -m benchmarks.bits --json > docs/results/bits.json
    python -m benchmarks.bits_page > docs/bits.md

The timeline, and with it every second, byte, FLOP and joule, is exactly the same however learning was computed. This
page is about what is learned: weights, scores, and the gradients that PSFL's warm-up probes. *The same bits* means
that the largest difference of any two numbers is 0.

## What holds where

| what changes | on a CPU | on CUDA |
|---|---|---|
| nothing: the same command twice | the same bits | the same bits |
| nothing: a run that was killed and [resumed]({resuming}) | the same bits | the same bits |
| how many clients share a cohort (`executor.cohort`) | the same bits, but for the networks below | rounding |
| which other clients, runs, seeds or algorithms are beside | the same bits, but for the networks below | rounding |
| in which order visits come to the trainer | the same bits, but for the networks below | rounding |
| how often values are needed (`flush`, `every`, `--until`) | the same bits, but for the networks below | rounding |
| threads (`executor.threads`, the number of cores) | the same bits, but for the networks below | – |
| the trainer (`executor.name=reference` instead of `cohort`) | rounding | rounding |
| the device, the kind of CPU, the version of torch | rounding | rounding |
| the precision (`executor.dtype`) | other numbers | other numbers |

*Rounding* is what the order of additions does: at each step about 1 part in 10 million in single precision, and 1 in
10¹⁵ in double precision. Training carries it on, and where a weight is chosen by rank, or an accuracy is compared
with a target, it may decide. The contract suite bounds it: 1e-9 of the loss, in double precision, against the
reference trainer, for every algorithm.

CUDA is not measured here. There, training the same clients twice gives the same bits because no kernel uses atomic
additions of floating-point numbers and cuDNN is held to deterministic kernels (`learn/determinism.py`); but a batched
product is free to add in another order for another number of clients, and nothing is done about that.

*The same bits* on a CPU was measured with torch {torch} and its {vectors} kernels. It rests on what torch and its
library for matrix products (MKL) do, which they do not promise: on another machine, run the program.
`tests/contract/test_bits.py` does so for a part of it in every run of the suite, where torch and kernels are these.
"""
CAUSES = """
## Why results depended on company, and what was done

1. **Products of matrices that begin at odd places.** A cohort's matrices lie one behind the other. MKL adds in
   another order where a matrix does not begin at a multiple of 16 bytes, so a client's product depended on how many
   clients lay before it, wherever rows times columns is no multiple of four (of two in double precision). Now
   weights are kept at such a distance that each client's begin at whole blocks, and a batch gets as many rows of
   padding as its activations need for that: none for usual widths, at most three.
2. **A layer of one unit.** Torch gives one client's product with a single column to another routine than several
   clients'. Such products are now written as a sum along rows.
3. **The last numbers of a tensor.** Sigmoid, SiLU, ELU, softplus, and GELU in double precision are computed by
   vectors, and by another function for the rest that fills no whole vectors: that rest belongs to the last client
   of a cohort. Now the tensor is filled up. ReLU, tanh, the exponential and the softmax never depended on it.
4. **Norms over all parameters** (`local.clip`, `local.sam`, the variance of a probe) were summed over a stack of
   one number a parameter and client, which torch adds in another order for the last clients. Now they are added in
   order.
5. **Rows of the longest.** Scores on clients' own samples, and probes, were padded to the longest of whoever was
   beside, and a product depends on its number of rows. Now everybody's number of rows depends on their own samples
   alone, rounded up to one of few sizes, and those with the same number share a cohort.
6. **Mean losses** were added up in pieces of up to eight steps, cut by the steps of all. Now they are added step by
   step.
7. **Convolutions** of several clients are another computation (unfolding and a batched product) than of one. On a
   CPU they are also slower, so there they now go one client at a time whatever `executor.cohort` says, and threads
   share them.

Averages, masks, codecs and everything else that is computed of models took no part in it: a sum has the order of
the schedule, and functions of stacked rows give each row the same bits.

## What is left, and why

A network with a layer that no rule knows (layer normalisation, a recurrence) goes through `torch.func.vmap`, which
makes its own tensors: where their sizes are no multiples of 16 bytes, causes 1 and 3 are still there.
{left}
Widths that are multiples of four (and of 32 for the activations in 3) avoid it. `MKL_CBWR=AUTO` in the environment
removes cause 1 wherever it is, for all matrix products of the process; Paceline does not set it by itself, because it
is for the whole process, must be set before anybody's first product, and does not help with cause 3. Setting
`executor.cohort=1` gives everybody the bits of one client at a time, for a price in speed.
"""
NETWORKS = """
## Networks

The largest difference of trained weights and mean losses ({clients} clients, three recipes: plain; short batches
of five; momentum, decay, clipping, proximal term and SAM), of probed gradients and their variance, and of scores.
*Cohort*: 1, 2, 3, 7 and all clients together. *Order*: backwards. *Company*: every third client without the others.
*Threads*: one and two. *Before* is the largest figure of the row at the commit before this page. A network with
BatchNorm is refused.
"""
ALGORITHMS = """
## Algorithms

The largest difference of final weights and of losses on the way, in single precision, for tiny runs (12 clients, a
network `{model}`, whose widths fill no whole blocks). *Flush*: 1, 4, 64 and none. *Beside*: three seeds together,
and alone.
"""


def page(found: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """The whole page in Markdown."""
    parts = [
        HEAD.format(**found, resuming=RESUMING),
        NETWORKS.format(clients="five or eleven"),
        _networks(found, before),
    ]
    parts += [ALGORITHMS.format(**found), _algorithms(found, before), CAUSES.format(left=_left(found))]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def largest(row: Mapping[str, Any]) -> float:
    """The largest figure of a row, whatever the precision."""
    return max(max(v.values()) if isinstance(v, dict) else v for v in row.values() if not isinstance(v, str))


def shown(figure: float) -> str:
    """A figure in few letters."""
    return "0" if figure == 0 else f"{figure:.0e}".replace("e-0", "e-")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows])


def _networks(found: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    old = {row["name"]: row for row in before["networks"]}
    rows = [
        [
            row["name"],
            row["program"],
            dtype,
            *(shown(row[dtype][k]) for k in NETWORK),
            shown(largest(old[row["name"]][dtype])),
        ]
        for row in found["networks"]
        for dtype in ("float32", "float64")
    ]
    return _table(["network", "program", "precision", *NETWORK, "before"], rows)


def _cells(row: Mapping[str, Any], before: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    return [*(shown(row[column]) for column in columns), shown(largest(before))]


def _algorithms(found: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    old = {row["name"]: row for row in before["algorithms"]}
    rows = [
        [r["name"], *(shown(r[k]) for k in ALGORITHM), shown(largest(old[r["name"]]))] for r in found["algorithms"]
    ]
    return _table(["algorithm", *ALGORITHM, "before"], rows)


def _left(found: Mapping[str, Any]) -> str:
    """Which networks still depend on company, by how much."""
    rows = [row for row in found["networks"] if largest(row)]
    if not rows:
        return "In the table above there is none."
    most = {dtype: shown(max(max(row[dtype].values()) for row in rows)) for dtype in ("float32", "float64")}
    names = "; ".join(f"*{row['name']}*" for row in rows)
    single, double = most["float32"], most["float64"]
    return f"In the tables above: {names}, by up to {single} in single and {double} in double precision."


def read(name: str) -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Print the page."""
    print(page(read("bits.json"), read("bits-before.json")), end="")


if __name__ == "__main__":
    main()
