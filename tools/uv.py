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


def program() -> str:
    """Return the path of uv, installed from the lock if need be."""
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if not shutil.which("uv", path=here):
        entry = re.search(r"^uv==[^\n]*\\\n(?:    --hash=[^\n]*\n)+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
        if not entry:
            sys.exit("there is no uv on the path, and none in requirements.lock")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(entry[0])
            file.flush()
            subprocess.run([*PIP, "install", "--require-virtualenv", "--quiet", "--no-deps", "--require-hashes", "-r", file.name], check=True)
    return str(shutil.which("uv", path=here))


if __name__ == "__main__":
    ran = subprocess.run(
        [program(), *sys.argv[1:]],
        env={"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON": sys.executable, **variables(), **os.environ},
        check=False,
    )
    sys.exit(ran.returncode)
