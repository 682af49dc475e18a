"use strict";
const facts = JSON.parse(document.getElementById("facts").textContent);
const main = document.getElementById("main");
const SVG = "http://www.w3.org/2000/svg";

// -- making elements
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const key = (place) => (place ? place[0] + ":" + place[1] : "");
const short = (place) => place[0].split(/[\\/]/).pop() + ":" + place[1];
function bytes(count) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (count < 1024) return (unit === "B" ? count : count.toFixed(1)) + " " + unit;
    count /= 1024;
  }
  return count.toFixed(1) + " GiB";
}
function plain(text) { return text === "" ? "\u00a0" : text; }

// -- what is linked: everything that knows a line says so in data-lines; choosing marks all of it
let chosen = new Set();
function choose(lines, from) {
  const same = lines.length === chosen.size && lines.every((line) => chosen.has(line));
  chosen = new Set(same ? [] : lines);
  mark(from);
}
function mark(from) {
  for (const element of main.querySelectorAll("[data-lines]")) {
    const lines = element.dataset.lines.split("\n");
    const linked = lines.some((line) => line && chosen.has(line));
    const first = linked && !element.classList.contains("linked");
    element.classList.toggle("linked", linked);
    element.setAttribute("aria-pressed", linked ? "true" : "false");
    const pane = element.closest(".pane");
    if (first && pane && !(from && pane.contains(from)) && !pane.dataset.moved) {
      pane.dataset.moved = "1";
      pane.scrollTop = element.offsetTop - pane.offsetTop - pane.clientHeight / 3;
    }
  }
  for (const pane of main.querySelectorAll(".pane")) delete pane.dataset.moved;
}
function row(lines, children, attributes = {}) {
  const wanted = lines.filter(Boolean);
  if (!wanted.length) return make("li", {}, make("span", { class: "row", "data-text": "1", ...attributes }, ...children));
  const button = make("button", {
    class: "row", type: "button", "data-text": "1", "data-lines": wanted.join("\n"), "aria-pressed": "false",
    onclick: (event) => choose(wanted, event.currentTarget), ...attributes,
  }, ...children);
  return make("li", {}, button);
}

// -- parts
function overview() {
  const part = make("section", {});
  const list = make("ul", { class: "chips" });
  for (const [name, value] of Object.entries(facts.summary)) {
    list.append(make("li", {}, make("b", {}, value.toLocaleString("en")), make("span", {}, name)));
  }
  part.append(list);
  if (facts.breaks.length) part.append(make("h2", {}, "Breaks"), breaksTable());
  else part.append(make("p", {}, "Nothing broke: each call is one graph."));
  const slow = [];
  for (const program of facts.programs) for (const step of program.steps) slow.push([program.title, step]);
  const timed = slow.filter(([, step]) => step.microseconds !== null).sort((a, b) => b[1].microseconds - a[1].microseconds);
  if (timed.length) {
    const total = timed.reduce((sum, [, step]) => sum + step.microseconds, 0);
    part.append(make("h2", {}, "Where the time goes"));
    const body = make("tbody", {});
    for (const [title, step] of timed.slice(0, 12)) {
      body.append(make("tr", {},
        make("td", {}, title), make("td", {}, step.ops), make("td", {}, step.kind),
        make("td", {}, step.places.map(short).join(", ")),
        make("td", { class: "figure" }, step.microseconds.toFixed(1)),
        make("td", { class: "figure" }, (100 * step.microseconds / total).toFixed(1) + " %")));
    }
    const names = ["program", "ops", "step", "lines", "µs", "share"];
    const head = make("thead", {}, make("tr", {}, ...names.map((name, n) => make("th", { class: n > 3 ? "figure" : "" }, name))));
    part.append(make("div", { class: "scroll" }, make("table", {}, head, body)));
  }
  return part;
}
function breaksTable() {
  const body = make("tbody", {});
  for (const each of facts.breaks) {
    body.append(make("tr", { "data-text": "1" }, make("td", {}, each.function),
      make("td", {}, each.place ? short(each.place) : ""), make("td", {}, each.reason)));
  }
  const head = make("thead", {}, make("tr", {}, ...["function", "place", "why"].map((name) => make("th", {}, name))));
  return make("div", { class: "scroll" }, make("table", {}, head, body));
}
function code() {
  const part = make("section", { class: "panes" });
  const busy = new Set();
  for (const graph of facts.graphs) for (const node of graph.nodes) if (node.place) busy.add(key(node.place));
  for (const program of facts.programs) for (const step of program.steps) step.places.forEach((place) => busy.add(key(place)));
  const sources = make("div", { class: "pane", "aria-label": "Source", tabindex: "0" }, make("h2", {}, "Source"));
  for (const source of facts.sources) {
    sources.append(make("p", { class: "file" }, source.file));
    const list = make("ul", { class: "rows" });
    let before = null;
    for (const [line, text] of source.lines) {
      if (before !== null && line !== before + 1) list.append(make("li", { class: "dim" }, "⋯"));
      before = line;
      const place = source.file + ":" + line;
      const known = busy.has(place);
      list.append(row(known ? [place] : [], [make("span", { class: "number" }, String(line)), plain(text)], known ? {} : { class: "row dim" }));
    }
    sources.append(list);
  }
  if (!facts.sources.length) sources.append(make("p", { class: "empty" }, "No lines are known."));
  const graphs = make("div", { class: "pane", "aria-label": "Graph", tabindex: "0" }, make("h2", {}, "Graph"));
  for (const graph of facts.graphs) {
    graphs.append(make("h3", {}, graph.title));
    const list = make("ul", { class: "rows" });
    for (const node of graph.nodes) {
      const swatch = make("span", { class: "swatch", style: `background:var(--${node.phase})` });
      list.append(row([key(node.place)], [swatch, node.name, make("span", { class: "type" }, node.type ? ": " + node.type : ""),
        node.op === "placeholder" ? "" : " = " + node.text]));
    }
    graphs.append(list);
  }
  const steps = make("div", { class: "pane", "aria-label": "Kernels", tabindex: "0" }, make("h2", {}, "Kernels"));
  for (const program of facts.programs) {
    steps.append(make("h3", {}, program.title));
    const list = make("ul", { class: "rows" });
    program.steps.forEach((step, number) => {
      const time = step.microseconds === null ? "" : "  " + step.microseconds.toFixed(1) + " µs";
      const item = row(step.places.map(key), [make("span", { class: "number" }, String(number)), step.ops,
        make("span", { class: "note" }, "  " + step.kind + time)]);
      if (step.text) item.append(make("details", {}, make("summary", {}, "instructions"), make("pre", {}, step.text)));
      list.append(item);
    });
    steps.append(list);
    if (program.reasons.length) {
      steps.append(make("details", {}, make("summary", {}, `why not more is computed together (${program.reasons.length})`),
        make("ul", { class: "rows" }, ...program.reasons.map((reason) => row([], [reason])))));
    }
  }
  if (!facts.programs.length) steps.append(make("p", { class: "empty" }, "No native program was made: this backend runs graphs op by op."));
  part.append(sources, graphs, steps);
  return part;
}

// -- the drawn graph
function legend() {
  const names = [["placeholder", "inputs"], ["forward", "forward"], ["backward", "backward"], ["write", "writes in place"], ["output", "results"]];
  return make("div", { class: "legend" }, ...names.map(([phase, name]) =>
    make("span", {}, make("span", { class: "swatch", style: `background:var(--${phase})` }), name)));
}
function drawings() {
  const part = make("section", {});
  if (!facts.graphs.length) { part.append(make("p", { class: "empty" }, "No graph was captured.")); return part; }
  const choice = make("select", { "aria-label": "Which graph" }, ...facts.graphs.map((graph, number) =>
    make("option", { value: number }, `${graph.title} (${graph.nodes.length} nodes)`)));
  const space = make("div", { class: "drawing", tabindex: "0", role: "application",
    "aria-label": "The graph. Plus and minus zoom, arrows move, 0 shows all." });
  const buttons = make("span", {});
  const said = make("p", { class: "file", role: "status" }, "Drag to move, wheel to zoom; + − 0 and arrows by keyboard. Choose a node to see its line.");
  part.append(make("div", { class: "legend" }, choice, buttons, legend()), space, said);
  let camera = null;
  const show = () => { camera = drawGraph(facts.graphs[choice.value], space, said); mark(); };
  for (const [name, act] of [["−", () => camera.zoom(1.3)], ["+", () => camera.zoom(1 / 1.3)], ["All", () => camera.all()]]) {
    buttons.append(make("button", { type: "button", onclick: act }, name), " ");
  }
  choice.addEventListener("change", show);
  space.addEventListener("keydown", (event) => camera.key(event));
  show();
  part.refresh = () => camera.all();
  return part;
}
function drawGraph(graph, space, said) {
  const half = { x: 76, y: 19 };
  const xs = graph.nodes.map((node) => node.x), ys = graph.nodes.map((node) => node.y);
  const box = { x: Math.min(...xs) - 100, y: Math.min(...ys) - 40, w: Math.max(...xs) - Math.min(...xs) + 200, h: Math.max(...ys) - Math.min(...ys) + 80 };
  const svg = draw("svg", { preserveAspectRatio: "xMidYMid meet" });
  const marker = draw("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    draw("path", { d: "M0 0L8 4L0 8z", fill: "currentColor", opacity: .5 }));
  svg.append(draw("defs", {}, marker));
  const edges = graph.edges.map(([from, to]) => {
    const a = graph.nodes[from], b = graph.nodes[to];
    const middle = (a.y + b.y) / 2;
    const path = draw("path", { class: "edge", "marker-end": "url(#tip)",
      d: `M${a.x} ${a.y + half.y}C${a.x} ${middle} ${b.x} ${middle} ${b.x} ${b.y - half.y}` });
    svg.append(path);
    return [from, to, path];
  });
  graph.nodes.forEach((node, number) => {
    const name = node.op.startsWith("call") ? node.target : node.name;
    const label = name.length > 19 ? name.slice(0, 18) + "…" : name;
    const group = draw("g", { class: "node", transform: `translate(${node.x} ${node.y})`, "data-text": node.name + " " + node.text + " " + node.type,
      "data-lines": key(node.place) },
      draw("title", {}, `${node.name}: ${node.type}\n${node.text}${node.place ? "\n" + short(node.place) : ""}`),
      draw("rect", { x: -half.x, y: -half.y, width: 2 * half.x, height: 2 * half.y, rx: 6, style: `stroke:var(--${node.phase})` }),
      draw("text", { y: node.type ? -2 : 4 }, label));
    if (node.type) group.append(draw("text", { class: "type", y: 13 }, node.type.length > 24 ? node.type.slice(0, 23) + "…" : node.type));
    group.addEventListener("click", () => {
      if (node.place) choose([key(node.place)]);
      for (const [from, to, path] of edges) path.classList.toggle("linked", from === number || to === number);
      said.textContent = `${node.name}: ${node.type} = ${node.text}${node.place ? "   (" + short(node.place) + ")" : ""}`;
    });
    svg.append(group);
  });
  space.replaceChildren(svg);
  const view = { ...box };
  const apply = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
  const camera = {
    all() { Object.assign(view, box); fit(); apply(); },
    zoom(factor, at = { x: view.x + view.w / 2, y: view.y + view.h / 2 }) {
      view.x = at.x - (at.x - view.x) * factor; view.y = at.y - (at.y - view.y) * factor;
      view.w *= factor; view.h *= factor; apply();
    },
    move(x, y) { view.x += x * view.w; view.y += y * view.h; apply(); },
    key(event) {
      const acts = { "+": () => camera.zoom(1 / 1.3), "=": () => camera.zoom(1 / 1.3), "-": () => camera.zoom(1.3), "0": () => camera.all(),
        ArrowLeft: () => camera.move(-.1, 0), ArrowRight: () => camera.move(.1, 0), ArrowUp: () => camera.move(0, -.1), ArrowDown: () => camera.move(0, .1) };
      if (acts[event.key]) { acts[event.key](); event.preventDefault(); }
    },
  };
  // A tall graph seen whole would be too small to read: then the view begins at its top, at a size that can be read.
  function fit() {
    const width = space.clientWidth || 800, height = space.clientHeight || 600;
    const scale = Math.min(width / box.w, height / box.h);
    if (scale < .45) {
      const w = width / .6, h = height / .6;
      view.x = box.x + box.w / 2 - w / 2; view.y = box.y; view.w = w; view.h = h;
    }
  }
  const point = (event) => {
    const inside = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return { x: inside.x, y: inside.y };
  };
  svg.addEventListener("wheel", (event) => { event.preventDefault(); camera.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, point(event)); }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = point(event); });
  svg.addEventListener("pointermove", (event) => {
    if (!held || !event.buttons) return;
    const now = point(event);
    view.x -= now.x - held.x; view.y -= now.y - held.y; apply();
  });
  window.addEventListener("pointerup", () => { held = null; });
  camera.all();
  return camera;
}

// -- time and memory
function timeline() {
  const part = make("section", {});
  let any = false;
  for (const program of facts.programs) {
    if (!program.steps.length || program.steps[0].microseconds === null) continue;
    any = true;
    const total = program.steps.reduce((sum, step) => sum + step.microseconds, 0);
    part.append(make("h2", {}, `${program.title}: ${total.toFixed(1)} µs in ${program.steps.length} steps, one thread`));
    const width = 1000, height = 74;
    const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "Steps along time" });
    let at = 0;
    for (const step of program.steps) {
      const wide = width * step.microseconds / total;
      const kind = step.kind.startsWith("kernel") ? "" : step.kind.includes("product") ? " product" : " other";
      const bar = draw("rect", { class: "bar" + kind, x: at, y: 8, width: Math.max(wide - .6, .4), height: 42,
        "data-lines": step.places.map(key).join("\n"), "data-text": step.ops },
        draw("title", {}, `${step.ops}\n${step.kind}\n${step.microseconds.toFixed(2)} µs${step.places.length ? "\n" + step.places.map(short).join(", ") : ""}`));
      bar.addEventListener("click", () => choose(step.places.map(key)));
      svg.append(bar);
      at += wide;
    }
    for (let tick = 0; tick <= 4; tick += 1) {
      svg.append(draw("text", { x: Math.min(width - 60, tick * width / 4 + 2), y: height - 6 }, (total * tick / 4).toFixed(1) + " µs"));
    }
    part.append(svg);
    const body = make("tbody", {});
    program.steps.forEach((step, number) => body.append(make("tr", { "data-text": "1" },
      make("td", { class: "figure" }, String(number)), make("td", {}, step.ops), make("td", {}, step.kind),
      make("td", {}, step.places.map(short).join(", ")), make("td", { class: "figure" }, step.microseconds.toFixed(2)))));
    const names = ["#", "ops", "step", "lines", "µs"];
    const head = make("thead", {}, make("tr", {}, ...names.map((name) => make("th", {}, name))));
    part.append(make("details", {}, make("summary", {}, "as a table"), make("div", { class: "scroll" }, make("table", {}, head, body))));
  }
  part.prepend(make("div", { class: "legend" }, ...[["--accent", "kernels"], ["--output", "matrix products"], ["--soft", "other functions"]].map(([colour, name]) =>
    make("span", {}, make("span", { class: "swatch", style: `background:var(${colour})` }), name))));
  if (!any) part.append(make("p", { class: "empty" }, "No native program was timed."));
  return part;
}
function memory() {
  const part = make("section", {});
  for (const program of facts.programs) {
    const { block, values, live } = program.memory;
    const sum = values.reduce((total, value) => total + value.bytes, 0);
    part.append(make("h2", {}, `${program.title}: a block of ${bytes(block)} serves ${bytes(sum)} of intermediate values`));
    if (!values.length) { part.append(make("p", { class: "empty" }, "No intermediate value is kept in memory.")); continue; }
    const width = 1000, height = 220, count = Math.max(live.length, 1);
    const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "Memory over the steps" });
    for (const value of values) {
      const [first, last] = value.span;
      const tall = Math.max(.8, (height - 20) * value.bytes / block);
      svg.append(draw("rect", { class: "block", x: width * first / count, width: width * (last - first + 1) / count,
        y: (height - 20) * (1 - value.offset / block) - tall, height: tall },
        draw("title", {}, `${value.name}\n${bytes(value.bytes)} at ${value.offset}, steps ${first} to ${last}`)));
    }
    svg.append(draw("text", { x: 4, y: height - 5 }, "step 0"), draw("text", { x: width - 60, y: height - 5 }, `step ${live.length - 1}`),
      draw("text", { x: 4, y: 14 }, bytes(block)));
    part.append(svg);
    const points = live.map((size, step) => `L${width * step / count} ${100 - 90 * size / Math.max(...live, 1)}L${width * (step + 1) / count} ${100 - 90 * size / Math.max(...live, 1)}`).join("");
    part.append(make("p", { class: "file" }, `Bytes in use at each step (at most ${bytes(Math.max(...live, 0))}):`));
    part.append(draw("svg", { class: "chart", viewBox: `0 0 ${width} 104`, preserveAspectRatio: "none", role: "img", "aria-label": "Bytes in use" },
      draw("path", { class: "area", d: `M0 100${points}L${width} 100z` })));
  }
  if (!facts.programs.length) part.append(make("p", { class: "empty" }, "No native program was made."));
  return part;
}
function decisions() {
  const part = make("section", {});
  part.append(make("h2", {}, "Breaks"));
  part.append(facts.breaks.length ? breaksTable() : make("p", { class: "empty" }, "None."));
  part.append(make("h2", {}, "Recompiles"));
  if (facts.misses.length) {
    part.append(make("ul", { class: "rows" }, ...facts.misses.map((miss) => row([], [miss.function + ": " + miss.reasons.join("; ")]))));
  } else part.append(make("p", { class: "empty" }, "None: what was compiled first served every call."));
  part.append(make("h2", {}, "Guards and generated code"));
  for (const entry of facts.entries) {
    part.append(make("details", {}, make("summary", {}, `${entry.function}: ${entry.guards.length} guards, compiled in ${entry.milliseconds.toFixed(1)} ms`),
      make("ul", { class: "rows" }, ...entry.guards.map((guard) => row([], [guard]))),
      entry.text ? make("details", {}, make("summary", {}, "generated Python"), make("pre", {}, entry.text)) : ""));
  }
  return part;
}

// -- the frame of it all
const parts = [["Overview", overview], ["Code", code], ["Graph", drawings], ["Timeline", timeline], ["Memory", memory], ["Breaks and guards", decisions]];
const tabs = document.getElementById("tabs");
const made = parts.map(([name, build], number) => {
  const panel = make("div", { role: "tabpanel", id: "part" + number, "aria-labelledby": "tab" + number, hidden: "" });
  const content = build();
  panel.append(content);
  main.append(panel);
  const tab = make("button", { role: "tab", type: "button", id: "tab" + number, "aria-controls": "part" + number, onclick: () => open(number) }, name);
  tabs.append(tab);
  return { tab, panel, content };
});
let current = 0;
function open(number, focus = false) {
  current = number;
  made.forEach(({ tab, panel, content }, each) => {
    const is = each === number;
    tab.setAttribute("aria-selected", is ? "true" : "false");
    tab.tabIndex = is ? 0 : -1;
    panel.hidden = !is;
    if (is && content.refresh) content.refresh();
    if (is && focus) tab.focus();
  });
  history.replaceState(null, "", "#" + parts[number][0].toLowerCase().split(" ")[0]);
}
tabs.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) { open((current + step + parts.length) % parts.length, true); event.preventDefault(); }
});
document.getElementById("title").textContent = facts.title;
document.getElementById("machine").textContent =
  `Weft ${facts.machine.weft}, Python ${facts.machine.python}, ${facts.machine.system}, ${facts.machine.threads} threads`;

const search = document.getElementById("search");
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  let hits = 0;
  const counts = made.map(({ panel }) => {
    let found = 0;
    for (const element of panel.querySelectorAll("[data-text]")) {
      const text = element.dataset.text === "1" ? element.textContent : element.dataset.text;
      const is = wanted !== "" && text.toLowerCase().includes(wanted);
      element.classList.toggle("found", is);
      if (is) {
        found += 1;
        for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      }
    }
    hits += found;
    return found;
  });
  made.forEach(({ tab }, number) => { tab.textContent = parts[number][0] + (wanted ? ` (${counts[number]})` : ""); });
  document.getElementById("hits").textContent = wanted ? `${hits} found` : "";
  const first = made[current].panel.querySelector(".found");
  if (first) first.scrollIntoView({ block: "nearest" });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape") {
    if (document.activeElement === search) { search.value = ""; search.dispatchEvent(new Event("input")); search.blur(); }
    else { chosen = new Set(); mark(); }
  }
});

const root = document.documentElement;
function theme(name) { root.dataset.theme = name; try { localStorage.setItem("weft-theme", name); } catch (error) { /* kept nowhere */ } }
let kept = null;
try { kept = localStorage.getItem("weft-theme"); } catch (error) { /* pages from files may have no storage */ }
root.dataset.theme = kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
const wanted = parts.findIndex(([name]) => "#" + name.toLowerCase().split(" ")[0] === location.hash);
open(Math.max(wanted, 0));
