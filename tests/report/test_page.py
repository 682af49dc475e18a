"""The page: whole by itself, and alive in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest

import weft
from weft.report import observe, render, save

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def weave(x, w):
    y = weft.softmax(x @ w, -1)  # </script> in a line must not end the page's data
    return (y * x).sum()


def noisy(x):
    print("weaving")
    return x + 1


@pytest.fixture(scope="module")
def page():
    with observe("<b>weaving</b>") as seen:
        x = weft.randn(8, 8, requires_grad=True)
        weft.compile(weave, backend="native")(x, weft.randn(8, 8)).backward()
        weft.compile(noisy, backend="native")(weft.ones(3))
    return render(seen)


def facts_in(page):
    return json.loads(re.search(r'<script id="facts" type="application/json">(.*?)</script>', page, re.S)[1])


def test_stands_alone(page):
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not re.search(r"<(link|img|script)[^>]*(src|href)=", page)
    assert "@data@" not in page and "@script@" not in page


def test_texts_of_the_user_stay_texts(page):
    assert "<title>&lt;b&gt;weaving&lt;/b&gt; - Weft report</title>" in page
    facts = facts_in(page)
    assert facts["title"] == "<b>weaving</b>"
    assert any("</script>" in text for source in facts["sources"] for _, text in source["lines"])


def test_explanations_are_pages_too(tmp_path):
    output = weft.compiler.explain(weave, backend="native")(weft.randn(4, 4), weft.randn(4, 4))
    output.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert facts_in(text)["title"] == "weave" and len(facts_in(text)["programs"]) == len(output.programs) == 1
    embedded = output._repr_html_()
    assert embedded.startswith("<iframe srcdoc=") and "</iframe>" in embedded
    assert facts_in(html.unescape(embedded))["title"] == "weave"


def test_graphs_that_no_native_program_serves_have_pages(tmp_path):
    with observe() as seen:
        weft.compile(weave, backend="eager")(weft.randn(4, 4), weft.randn(4, 4))
    save(seen, tmp_path / "report.html")
    assert facts_in((tmp_path / "report.html").read_text())["programs"] == []


PROBE = """
<script>
{
const told = {};
const press = (key, target = document) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
window.addEventListener("error", (event) => { told.error = String(event.message); });
told.remedies = [...made[0].panel.querySelectorAll(".remedy")].map((each) => each.textContent);
told.heads = [...made[0].panel.querySelectorAll("h2")].map((each) => each.textContent);
told.lines = [...made[0].panel.querySelectorAll("td.code")].map((each) => each.parentElement.textContent);
told.tabs = [...document.querySelectorAll("[role=tab]")].map((tab) => tab.textContent);
told.open = document.querySelector("[role=tab][aria-selected=true]").textContent;
press("ArrowRight", document.querySelector("[role=tab][aria-selected=true]"));
told.next = document.querySelector("[role=tab][aria-selected=true]").textContent;
const pane = document.querySelector("[aria-label=Source]");
pane.focus();
press("ArrowDown", pane);
told.row = document.activeElement.matches("[aria-label=Source] button.row");
told.stops = [...document.querySelectorAll(".panes *")].filter((each) => each.tabIndex === 0).length;
const line = document.querySelector(".pane .row[data-lines]");
line.click();
told.linked = ["Source", "Graph", "Kernels"].map(
  (name) => document.querySelectorAll(`[aria-label=${name}] .linked`).length);
press("Escape");
told.after = document.querySelectorAll(".linked").length;
press("/");
told.searching = document.activeElement.id;
const search = document.getElementById("search");
search.value = "softmax";
search.dispatchEvent(new Event("input"));
told.hits = document.getElementById("hits").textContent;
told.nodes = document.querySelectorAll(".drawing .node").length;
const drawing = document.querySelector(".drawing");
const before = drawing.querySelector("svg").getAttribute("viewBox");
press("+", drawing);
told.zoomed = before !== drawing.querySelector("svg").getAttribute("viewBox");
const was = document.documentElement.dataset.theme;
document.getElementById("theme").click();
told.themes = [was, document.documentElement.dataset.theme].sort();
told.fits = made.map((_, number) => {
  open(number);
  const cut = [...document.querySelectorAll(".scroll, .axis span, h2, td")].filter((each) =>
    each.scrollWidth > each.clientWidth + 1 || each.getBoundingClientRect().right > window.innerWidth);
  return document.documentElement.scrollWidth <= window.innerWidth && cut.length === 0;
});
told.times = [0.5, 13.57, 999.4, 999.6, 188906.1, 2e6].map(time);
const strip = document.querySelector("[role=slider]");
press("ArrowRight", strip);
told.step = [strip.getAttribute("aria-valuenow"), strip.parentElement.querySelector(".said").textContent];
told.ticks = made[3].panel.querySelector(".axis").children.length;
search.value = "";
search.dispatchEvent(new Event("input"));
press("n", drawing);
told.node = drawing.parentElement.querySelector(".said").textContent;
press("0", drawing);
told.inputs = [...drawing.querySelectorAll(".node")].map((each) => each.querySelector("text").textContent);
told.wide = document.documentElement.scrollWidth <= window.innerWidth;
told.script = document.querySelectorAll("main b b").length;
document.body.setAttribute("data-told", JSON.stringify(told));
}
</script>
"""


def told_by(text, tmp_path, width):
    """What a page says of itself, in Chromium."""
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    command += [f"--window-size={width},800", "--virtual-time-budget=2000", "--dump-dom", f"file://{path}"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(html.unescape(re.search(r'data-told="([^"]*)"', dom)[1]))


IN_A_FRAME = """
<script>
const told = {}, frame = document.querySelector("iframe");
function look() {
  try { frame.contentWindow.eval("open(2)"); } catch (error) { told.error = String(error); }
  told.open = frame.contentDocument.querySelector("[role=tab][aria-selected=true]").textContent;
  document.body.setAttribute("data-told", JSON.stringify(told));
}
if (frame.contentDocument.querySelector("[role=tab][aria-selected=true]")) look();
else frame.addEventListener("load", look);
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_in_a_notebook(page, tmp_path):
    frame = f'<iframe srcdoc="{html.escape(page)}"></iframe>'
    assert told_by(f"<body>{frame}{IN_A_FRAME}</body>", tmp_path, 900) == {"open": "Graph"}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("width", [1280, 500])
def test_in_a_browser(page, tmp_path, width):
    told = told_by(page.replace("</body>", PROBE + "</body>"), tmp_path, width)
    assert "error" not in told
    assert told["tabs"] == ["Overview", "Code", "Graph", "Timeline", "Memory", "Breaks and guards"]
    assert (told["open"], told["next"]) == ("Overview", "Code")
    assert told["row"] and told["stops"] <= 5  # three panes, and what folds
    assert all(count > 0 for count in told["linked"]) and told["after"] == 0
    assert told["searching"] == "search" and int(told["hits"].split()[0]) > 0
    assert told["nodes"] > 4 and told["zoomed"] and told["wide"] and told["script"] == 0
    assert told["themes"] == ["dark", "light"]
    heads = ["By line", "Kernels, like", "Memory along programs 1 and 2", "Memory along program 3", "Breaks"]
    assert len(told["heads"]) == 5 and all(map(str.startswith, told["heads"], heads)), told["heads"]
    assert "y = weft.softmax(x @ w, -1)" in told["lines"][0] and "s %" not in told["lines"][0]
    assert [text[:4] for text in told["remedies"]] == ["Why:", "Try:"]
    assert told["fits"] == [True] * 6
    assert told["times"] == ["0.50 µs", "13.6 µs", "999 µs", "1.00 ms", "189 ms", "2.00 s"]
    assert told["step"][0] == "0" and told["step"][1].startswith("0: ") and told["ticks"] == 5
    assert told["node"].startswith("x: f32[8,8]") and {"x", "w"} <= set(told["inputs"])
