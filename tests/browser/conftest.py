"""Pages of real runs, small ones, and one of 1,000 devices; and a browser to open them in."""

import pytest

import paceline
from tests.ui.browsing import SETTLED, Watched


@pytest.fixture(scope="session")
def comparison(tmp_path_factory):
    """Three methods to a target with two seeds, over links that take time, with watts."""
    out = tmp_path_factory.mktemp("pages")
    fleet = {"links": "rate:5,20", "watts": 5.0, "link_watts": 1.0, "receive_watts": 1.0}
    paceline.compare(
        ["fedavg", "psfl", "fedbuff"], clients=12, fleet=fleet, until="accuracy=0.6", seeds=2, out=out / "runs"
    ).report(out / "page.html")
    return out / "page.html"


@pytest.fixture(scope="session")
def crowd(tmp_path_factory):
    """A schedule of 1,000 devices that has more than 100,000 spans."""
    out = tmp_path_factory.mktemp("crowd")
    settings = {"clients": 1000, "fleet.links": "rate:5,20", "fedavg.participants": 250, "fedavg.rounds": 90}
    paceline.run("fedavg", settings=settings, dry=True, out=out / "runs").report(out / "page.html")
    return out / "page.html"


@pytest.fixture
def opened(browser):
    """A function that opens a page and waits until it can be used; afterwards nothing may have gone wrong."""
    watched = []

    def open_page(path, **how):
        one = Watched(browser, f"file://{path.parent}", **how)
        watched.append(one)
        page = one.go(f"/{path.name}")
        page.evaluate("paceline.ready")
        page.evaluate(SETTLED)  # what is ready is drawn in the frame that follows
        return page

    yield open_page
    for one in watched:
        assert (one.complaints, one.outside) == ([], [])
        one.page.close()
