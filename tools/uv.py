"""Run uv with the package indices that pip is configured with: `python tools/uv.py pip install ...`.

uv does not read pip's configuration. If no uv is on the path, the one in requirements.lock is installed first.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
MEANS = {  # pip's setting: uv's variable, and what stands between several values
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
}


def told() -> dict[str, str]:
    """Return pip's settings by name: those of `install` outweigh global ones, and variables outweigh both."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(global|install|:env:)\.([\w-]+)=(.*)$", listed, re.MULTILINE)
    order = ["global", "install", ":env:"]
    return {name: ast.literal_eval(value) for _, name, value in sorted(found, key=lambda one: order.index(one[0]))}


def variables() -> dict[str, str]:
    """Return uv's variables for pip's settings."""
    pip = told()
    ours = {MEANS[name][0]: MEANS[name][1].join(value.split()) for name, value in pip.items() if name in MEANS}
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    nearest = next(folder for folder in (home, *home.parents) if folder.exists())
    return ours | ({} if os.access(nearest, os.W_OK) else {"UV_NO_CACHE": "1"})


def program() -> str | None:
    """Return the path of uv; if there is none, install the one of the lock first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    entry = re.search(r"^uv==.*(?:(?<=\\)\n.*)*", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if not shutil.which("uv", path=path) and entry:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(entry[0])
            file.flush()
            words = ["--require-virtualenv", "--quiet", "--no-deps", "--require-hashes", "-r", file.name]
            subprocess.run([*PIP, "install", *words], check=False)
    return shutil.which("uv", path=path)


if __name__ == "__main__":
    ours = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON": sys.executable, **variables()}
    uv = program() or sys.exit("there is no uv")
    sys.exit(subprocess.run([uv, *sys.argv[1:]], env={**ours, **os.environ}, check=False).returncode)
