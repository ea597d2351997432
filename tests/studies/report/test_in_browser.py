"""The page as headless Chromium shows it: light, dark, on a phone, on paper.

Chromium is not a dependency: these tests are skipped on machines without it, for instance in
continuous integration. References, identifiers, colors and escaping need no browser, and are tested
in `test_page.py`.
"""

import re
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.image import imread

import stanadapt as sa
from stanadapt.studies.repeats.page import repeats_page
from stanadapt.studies.repeats.summary import summarize
from tests.helpers import made_up_fits as made_up
from tests.helpers import made_up_repeats

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
PHONE, DESKTOP = 390, 1440  # pixels
# inside a frame, as a window cannot be so narrow
FRAME = """<body style="margin: 0"><script>
addEventListener("message", event => { document.title = event.data; });
</script><iframe src="{page}" style="width: {width}px; height: 800px; border: 0"></iframe>"""
MEASURE = """<script>
const wide = document.querySelector("#table .wide");
const widths = [document.documentElement.scrollWidth, wide.scrollWidth, wide.clientWidth];
parent.postMessage("widths " + widths.join(" "), "*");
</script></body>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    fits = {
        "nuts": made_up.fit(1, seconds=10.0, **made_up.NUTS),
        "a sampler with a long name": made_up.fit(2),
        "frozen": made_up.frozen(3),
    }
    return sa.report(fits, tmp_path_factory.mktemp("browser") / "report.html")


@pytest.fixture(scope="module")
def repeats(tmp_path_factory):
    """A page of two samplers on three targets, one of them with a long name."""
    rows, targets, samplers = [], [], ["nuts", "a sampler with a long name"]
    names = ["pima", "eight_schools_centered eight_schools", "linear"]
    for k, target in enumerate(names):
        for sampler in samplers:
            for i in (1, 2, 3):
                bad = {"verdict": "do not use", "reasons": "R-hat is 1.9."} if k == 1 else {}
                rows.append(made_up_repeats.row(sampler, i, (k + 1) * i * 0.01234, **bad))
                targets.append(target)
    table = made_up_repeats.table(*rows).assign(target=targets)
    versions = {"settings": {"seed": 1}, "samplers": {}, "versions": {"stanadapt": "0"}}
    text = repeats_page(
        table, summarize(table, samplers, 3, names), ["seed 1"], "stanadapt", versions
    )
    path = tmp_path_factory.mktemp("browser") / "repeats.html"
    path.write_text(text)
    return path


@pytest.fixture(params=["page", "repeats"])
def either(request):
    return request.getfixturevalue(request.param)


def chromium(page, profile, *arguments):
    """Open a page; return what is printed, and the lines of the page's console."""
    done = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}",
            "--enable-logging=stderr", "--virtual-time-budget=3000", *arguments, page.as_uri(),
        ],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def screenshot(page, folder, *arguments):
    """Pixels, shape (height, width, 3), between 0 and 1."""
    image = folder / "shot.png"
    _, console = chromium(
        page, folder / "profile", f"--screenshot={image}", "--window-size=1000,3000", *arguments
    )
    assert not console
    return imread(image)[..., :3]


def test_light_and_dark(either, page, tmp_path):
    """Paper fills most of the picture; ink and the colors of all fits are on it."""
    light = screenshot(either, tmp_path)
    dark = screenshot(either, tmp_path, "--blink-settings=preferredColorScheme=0")
    count = 3 if either == page else 2
    for shot, paper, fits in (
        (light, "ffffff", ("0072b2", "c44e00", "00795a")[:count]),
        (dark, "14171b", ("5db4ea", "ff9a57", "2fc79c")[:count]),
    ):
        assert share(shot, paper) > 0.7
        assert share(shot, paper) < 0.98
        for color in fits:
            assert share(shot, color) > 1e-4, color
    assert share(dark, "ffffff") < 1e-3


def share(shot, color):
    rgb = np.array([int(color[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    return np.mean(np.abs(shot - rgb).max(axis=2) < 0.02)


def test_a_console_error_would_be_seen(page, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text().replace("</body>", "<script>missing()</script></body>"))
    _, console = chromium(broken, tmp_path / "profile", "--dump-dom")
    assert any("missing is not defined" in line for line in console)


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_wide_tables_scroll_inside_their_own_frames(either, tmp_path, width):
    """On a phone the page does not scroll sideways; on a desktop, not even the table."""
    inner, outer = tmp_path / "inner.html", tmp_path / "outer.html"
    inner.write_text(either.read_text().replace("</body>", MEASURE))
    outer.write_text(FRAME.replace("{page}", inner.name).replace("{width}", str(width)))
    printed, _ = chromium(outer, tmp_path / "profile", "--dump-dom")
    found = re.search(r"<title>widths (\d+) (\d+) (\d+)</title>", printed)
    whole, table, room = map(int, found.groups())
    assert whole <= width
    assert (table > room) == (width == PHONE)


def test_it_can_be_printed(either, tmp_path):
    pdf = tmp_path / "report.pdf"
    chromium(either, tmp_path / "profile", "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
    pages = re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())
    assert 1 <= len(pages) <= 8
