"""The comparison as a LaTeX table, with booktabs' rules; whatever is in a name stays text."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.reading import one_line
from paceline.report.runs import Group
from paceline.report.tables import compared, remarks

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "±": r"$\pm$",
    "–": "--",
    "…": r"\ldots{}",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
}


def escaped(text: str) -> str:
    r"""Text that LaTeX shows as it is.

    >>> print(escaped("50 % of $x_1$ & \\input{a}"))
    50 \% of \$x\_1\$ \& \textbackslash{}input\{a\}
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in one_line(text))


def latex_table(groups: Sequence[Group]) -> str:
    """The comparison of the page: means with 95 % intervals, the best in bold where intervals say that it is."""
    found = compared(groups)
    lines = [
        "% Needs \\usepackage{booktabs,textcomp}. Means over seeds with 95 % intervals (Student's t).",
        *(f"% {one_line(remark)}" for remark in remarks(groups)),
        rf"\begin{{tabular}}{{l{'r' * (len(found.titles) - 1)}}}",
        r"\toprule",
        _row([escaped(title) for title in found.titles]),
        r"\midrule",
    ]
    for place, row in enumerate(found.rows):
        cells = [escaped(text) for text in row]
        lines.append(
            _row([rf"\textbf{{{cell}}}" if (place, k) in found.best else cell for k, cell in enumerate(cells)])
        )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
