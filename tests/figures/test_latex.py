"""The comparison as a LaTeX table."""

import re
import shutil
import subprocess

import pytest

from paceline.figures.latex import escaped, latex_table
from paceline.report.runs import Group, Run
from paceline.report.tables import compared


def group(label, times, traffic=1e6):
    runs = tuple(
        Run(
            path=None,
            algorithm=label,
            seed=seed,
            settings={},
            metrics={"time": [time], "round": [3.0]},
            summary={"status": "done", "target": {"accuracy": 0.9, "time": time, "bytes": traffic, "rounds": 3}},
        )
        for seed, time in enumerate(times)
    )
    return Group(label=label, runs=runs)


def cells(text):
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    return [re.split(r"(?<!\\) & ", line.removesuffix(" \\\\")) for line in body.splitlines()]


def test_a_table_has_the_rows_of_the_comparison():
    groups = [group("fedavg", (100, 110, 120)), group("psfl", (50, 52, 54))]
    text = latex_table(groups)
    found = compared(groups)
    rows = cells(text)
    assert [len(row) for row in rows] == [len(found.titles)] * 2
    plain = [[re.sub(r"\\textbf\{(.*)\}", r"\1", cell) for cell in row] for row in rows]
    assert plain == [[escaped(cell) for cell in row] for row in found.rows]
    assert "110 $\\pm$ 25 s" in text
    assert text.count("rule\n") == 3
    assert f"{{l{'r' * (len(found.titles) - 1)}}}" in text


def test_the_best_is_bold_only_where_intervals_say_so():
    apart = cells(latex_table([group("a", (100, 110, 120)), group("b", (50, 52, 54))]))
    assert [cell for cell in apart[1] if "textbf" in cell] == ["\\textbf{52.0 $\\pm$ 5.0 s}"]
    assert not [cell for cell in apart[0] if "textbf" in cell]
    overlapping = latex_table([group("a", (100, 110, 120)), group("b", (90, 105, 115))])
    assert "textbf" not in overlapping
    one_seed = latex_table([group("a", (100,)), group("b", (10,))])
    assert "textbf" not in one_seed


@pytest.mark.parametrize(
    "label", ["a & b \\\\ c", "\\input{/etc/passwd}", "100 % {of} #1 $x$ ~^_", "x\n\\end{tabular}"]
)
def test_hostile_names_stay_text(label):
    text = latex_table([group(label, (1, 2, 3)), group("b", (1, 2, 4))])
    rows = cells(text)
    assert len(rows) == 2
    assert len(rows[0]) == len(rows[1])
    assert text.count("\\end{tabular}") == 1
    first = rows[0][0]
    commands = set(re.findall(r"\\([a-zA-Z]+)", first))
    assert commands <= {"textbackslash", "textasciitilde", "textasciicircum"}
    bare = re.sub(r"\\([a-zA-Z]+\{\}|.)", "", first)
    assert not set(bare) & set("\\{}$&#%_^~\n")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="LaTeX is not installed (Debian: texlive-latex-recommended)")
def test_latex_takes_it_whatever_names_are_in_it(tmp_path):
    labels = ["fedavg", "\\input{x} & \\\\", "100 % {of} #1 $x$ ~^_", "\" ' ` < > | … – ε δ ±", "Méthode × 2"]
    groups = [group(label, (100 + 50 * k, 110 + 50 * k, 120 + 50 * k)) for k, label in enumerate(labels)]
    page = "\\documentclass{article}\n\\usepackage{booktabs,textcomp}\n\\begin{document}\n%s\\end{document}\n"
    (tmp_path / "page.tex").write_text(page % latex_table(groups), encoding="utf-8")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
