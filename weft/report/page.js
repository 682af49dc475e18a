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
function many(count, thing) { return count.toLocaleString("en") + " " + thing + (count === 1 ? "" : "s"); }
// microseconds, three digits of them, in the unit that suits
function time(microseconds) {
  let value = microseconds, unit = "µs";
  for (const larger of ["ms", "s"]) if (value >= 999.5) { value /= 1000; unit = larger; }
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + " " + unit;
}
// A table that narrow pages show as cards: `columns` are [class, title]; the classes say where in a card a cell stands.
function table(columns, rows) {
  const head = make("tr", { role: "row" }, ...columns.map(([kind, title]) => make("th", { role: "columnheader", class: kind }, title)));
  const body = rows.map((cells) => make("tr", { role: "row", "data-text": "1" },
    ...cells.map((cell, number) => make("td", { role: "cell", class: columns[number][0] }, cell))));
  return make("div", { class: "scroll" }, make("table", { role: "table" },
    make("thead", { role: "rowgroup" }, head), make("tbody", { role: "rowgroup" }, ...body)));
}
function swatches(names) {
  return names.map(([colour, name]) =>
    make("span", {}, make("span", { class: "swatch", style: `background:var(--${colour})` }), name));
}

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
    class: "row", type: "button", tabindex: "-1", "data-text": "1", "data-lines": wanted.join("\n"), "aria-pressed": "false",
    onclick: (event) => choose(wanted, event.currentTarget), ...attributes,
  }, ...children);
  return make("li", {}, button);
}

// -- parts
function overview() {
  const part = make("section", {});
  const list = make("ul", { class: "chips" });
  const singular = { "calls compiled": "call compiled", products: "matrix product" };
  for (const [name, value] of Object.entries(facts.summary)) {
    const named = name === "products" ? "matrix products" : name;
    const one = singular[name] || name.replace(/ies$/, "y").replace(/s$/, "");
    const [shown, word] = name === "compile milliseconds" ? [time(1000 * value), "to compile"] : [value.toLocaleString("en"), value === 1 ? one : named];
    list.append(make("li", {}, make("b", {}, shown), make("span", {}, word)));
  }
  part.append(list);
  part.append(...byLine(), ...byLikeness(), ...alongTheStep());
  part.append(make("h2", {}, "Breaks"));
  if (facts.breaks.length) part.append(breaksTable());
  else part.append(make("p", { class: "empty" }, facts.entries.length ? "None: each call is one graph." : "None."));
  return part;
}
// The few that take the most time, and all of them on demand.
const SHOWN = 12;
function longTable(columns, rows, thing) {
  const parts = [table(columns, rows.slice(0, SHOWN))];
  if (rows.length > SHOWN) parts.push(make("details", {}, make("summary", {}, `${many(rows.length - SHOWN, "more " + thing)}`), table(columns, rows.slice(SHOWN))));
  return parts;
}
const share = (part, whole) => (whole ? (100 * part / whole).toFixed(1) + " %" : "");
function byLine() {
  if (!facts.lines.length) return [];
  const total = facts.lines.reduce((sum, line) => sum + line.forward + line.backward, 0);
  const most = Math.max(...facts.lines.map((line) => line.forward + line.backward));
  const bar = (line) => make("div", { class: "pair", "aria-hidden": "true" }, ...["forward", "backward"].map((phase) =>
    make("span", { style: `width:${(100 * line[phase] / most).toFixed(2)}%;background:var(--${phase})` })));
  const rows = facts.lines.map((line) => [line.place ? line.text : make("i", {}, "what belongs to no line of yours"), line.place ? short(line.place) : "",
    bar(line), line.forward ? time(line.forward) : "", line.backward ? time(line.backward) : "", share(line.forward + line.backward, total)]);
  const columns = [["code", "line"], ["lines", "place"], ["bars", ""], ["figure forward", "forward"], ["figure backward", "backward"], ["figure share", "share"]];
  return [make("h2", {}, `By line: ${time(total)}`), make("div", { class: "legend" }, ...swatches([["forward", "forward"], ["backward", "backward"]])),
    ...longTable(columns, rows, "line"),
    make("p", { class: "file" }, "All that was compiled, each step run once on one thread: a call that uses more threads takes less. A step that comes from several lines counts for each in equal parts. Gradients stand at the line of what they are the gradients of.")];
}
function byLikeness() {
  if (!facts.kinds.length) return [];
  const total = facts.kinds.reduce((sum, kind) => sum + kind.microseconds, 0);
  const rows = facts.kinds.map((kind) => [kind.ops, kind.kind.replace(/ (over|of) n/, "") + (kind.sizes.length ? ": " + kind.sizes.slice(0, 4).join(", ") + (kind.sizes.length > 4 ? ", …" : "") : ""),
    kind.places.slice(0, 4).map(short).join(", ") + (kind.places.length > 4 ? ", …" : ""), kind.count + " ×", time(kind.microseconds), share(kind.microseconds, total)]);
  const columns = [["ops", "ops"], ["kind", "step and sizes"], ["lines", "lines"], ["figure count", "runs"], ["figure time", "time"], ["figure share", "share"]];
  return [make("h2", {}, "Kernels, like ones together"), ...longTable(columns, rows, "kind")];
}
function alongTheStep() {
  return facts.memory.flatMap(({ title, live, parts }) => {
    const width = 1000, height = 120, most = Math.max(...live, 1), each = width / live.length;
    const points = live.map((size, step) => `L${each * step} ${height * (1 - .96 * size / most)}L${each * (step + 1)} ${height * (1 - .96 * size / most)}`).join("");
    const shades = parts.map((one, number) => {
      const end = number + 1 < parts.length ? parts[number + 1].first : live.length;
      return draw("rect", { class: "shade " + (one.backward ? "behind" : "before"), x: each * one.first, y: 0, width: each * (end - one.first), height }, draw("title", {}, one.title));
    });
    const name = `Memory along ${title}`;
    const legend = parts.some((one) => one.backward) ? [make("div", { class: "legend" }, ...swatches([["forward", "forward"], ["backward", "backward"]]))] : [];
    return [make("h2", {}, `${name}: at most ${bytes(most)}`), ...legend,
      chart(name, height, ...shades, draw("path", { class: "area", d: `M0 ${height}${points}L${width} ${height}z` })), axis("step 0", `step ${live.length - 1}`)];
  }).concat(facts.memory.length ? [make("p", { class: "file" }, "Bytes of intermediate values and results, and of what a forward keeps until its backward has run; not those of inputs and parameters.")] : []);
}
function breaksTable() {
  const remedy = (each) => make("div", {}, each.reason,
    ...[["Why: ", each.why], ["Try: ", each.try]].filter(([, text]) => text).map(([name, text]) => make("p", { class: "remedy" }, make("b", {}, name), text)));
  return table([["ops", "function"], ["place", "place"], ["why", "reason and remedy"]],
    facts.breaks.map((each) => [each.function, each.place ? short(each.place) : "", remedy(each)]));
}
// A pane is one stop of the Tab key; arrows go from row to row in it.
function walk(event, pane) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const rows = [...pane.querySelectorAll("button.row, summary")].filter((each) => each.offsetParent !== null);
  const to = rows[Math.min(Math.max(rows.indexOf(document.activeElement) + step, 0), rows.length - 1)];
  if (to) { to.focus(); event.preventDefault(); }
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
      list.append(row(known ? [place] : [], [make("span", { class: "number" }, String(line)), make("span", {}, plain(text))],
        { class: known ? "row numbered" : "row numbered dim" }));
    }
    sources.append(list);
  }
  if (!facts.sources.length) sources.append(make("p", { class: "empty" }, "No lines are known."));
  const graphs = make("div", { class: "pane", "aria-label": "Graph", tabindex: "0" }, make("h2", {}, "Graph"));
  for (const graph of facts.graphs) {
    graphs.append(make("h3", {}, graph.title));
    const list = make("ul", { class: "rows" }), inputs = make("ul", { class: "rows" });
    for (const node of graph.nodes) {
      const swatch = make("span", { class: "swatch", style: `background:var(--${node.phase})` });
      const text = make("span", {}, node.name, make("span", { class: "type" }, node.type ? ": " + node.type : ""),
        node.op === "placeholder" ? "" : " = " + node.text);
      (node.op === "placeholder" ? inputs : list).append(row([key(node.place)], [swatch, text], { class: "row marked" }));
    }
    const count = inputs.children.length;  // a model has many: its ops are what one comes for
    if (count > 8) graphs.append(make("details", {}, make("summary", {}, many(count, "input")), inputs));
    else if (count) graphs.append(inputs);
    graphs.append(list);
  }
  const steps = make("div", { class: "pane", "aria-label": "Kernels", tabindex: "0" }, make("h2", {}, "Kernels"));
  for (const program of facts.programs) {
    steps.append(make("h3", {}, program.title));
    const list = make("ul", { class: "rows" });
    program.steps.forEach((step, number) => {
      const took = step.microseconds === null ? "" : ", " + time(step.microseconds);
      const item = row(step.places.map(key), [make("span", { class: "number" }, String(number)),
        make("span", {}, step.ops, make("span", { class: "note" }, "  " + step.kind + took))], { class: "row numbered" });
      if (step.text) item.append(make("details", { class: "instructions" }, make("summary", { tabindex: "-1" }, "instructions"), make("pre", {}, step.text)));
      list.append(item);
    });
    steps.append(list);
    if (program.reasons.length) {
      steps.append(make("details", {}, make("summary", {}, `why not more is computed together (${program.reasons.length})`),
        make("ul", { class: "rows" }, ...program.reasons.map((reason) => row([], [reason])))));
    }
  }
  if (!facts.programs.length) steps.append(make("p", { class: "empty" }, "No native program was made: this backend runs graphs op by op."));
  for (const pane of [sources, graphs, steps]) pane.addEventListener("keydown", (event) => walk(event, pane));
  part.append(sources, graphs, steps);
  return part;
}

// -- the drawn graph
const HINT = "Drag to move, wheel to zoom. By keyboard: arrows, + and −, 0 for all, Home for the start, n and p from node to node.";
function drawings() {
  const part = make("section", {});
  if (!facts.graphs.length) { part.append(make("p", { class: "empty" }, "No graph was captured.")); return part; }
  const choice = make("select", { "aria-label": "Which graph" }, ...facts.graphs.map((graph, number) =>
    make("option", { value: number }, `${graph.title} (${many(graph.nodes.length, "node")})`)));
  const space = make("div", { class: "drawing", tabindex: "0", role: "application", "aria-label": "The graph. " + HINT });
  const buttons = make("span", { class: "buttons" });
  const said = make("p", { class: "file said", role: "status" });
  const colours = [["placeholder", "inputs"], ["forward", "forward"], ["backward", "backward"], ["write", "writes in place"], ["output", "results"]];
  part.append(make("div", { class: "legend" }, choice, buttons, make("div", { class: "legend" }, ...swatches(colours))), space, said);
  let camera = null;
  const show = () => { camera = drawGraph(facts.graphs[choice.value], space, said); said.textContent = HINT; mark(); };
  const acts = [["−", "Zoom out", () => camera.zoom(1.3)], ["+", "Zoom in", () => camera.zoom(1 / 1.3)], ["All", "Show all", () => camera.all()], ["Start", "Go to the start", () => camera.start()]];
  for (const [name, label, act] of acts) buttons.append(make("button", { type: "button", "aria-label": label, onclick: act }, name));
  choice.addEventListener("change", show);
  space.addEventListener("keydown", (event) => camera.key(event));
  show();
  part.refresh = () => camera.start();
  part.reveal = (element) => camera.reveal(element);
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
  const groups = [];
  let at = -1;
  function choose_node(number, toggles = false) {
    const node = graph.nodes[number];
    at = number;
    if (!node.place) { chosen = new Set(); mark(); }
    else if (toggles || !chosen.has(key(node.place))) choose([key(node.place)]);
    groups.forEach((group, each) => group.classList.toggle("current", each === number));
    for (const [from, to, path] of edges) path.classList.toggle("linked", from === number || to === number);
    said.textContent = node.name + (node.type ? ": " + node.type : "") + (node.text === node.name ? "" : " = " + node.text)
      + (node.place ? "   (" + short(node.place) + ")" : "");
  }
  graph.nodes.forEach((node, number) => {
    const name = node.op.startsWith("call") ? node.target : node.name;
    // of what the user has named, the end tells most
    const label = name.length <= 20 ? name : node.op.startsWith("call") ? name.slice(0, 19) + "…" : "…" + name.slice(-19);
    const group = draw("g", { class: "node", transform: `translate(${node.x} ${node.y})`, "data-text": node.name + " " + node.text + " " + node.type,
      "data-lines": key(node.place) },
      draw("title", {}, `${node.name}: ${node.type}\n${node.text}${node.place ? "\n" + short(node.place) : ""}`),
      draw("rect", { x: -half.x, y: -half.y, width: 2 * half.x, height: 2 * half.y, rx: 6, style: `--phase:var(--${node.phase})` }),
      draw("text", { y: node.type ? -2 : 4 }, label));
    if (node.type) group.append(draw("text", { class: "type", y: 13 }, node.type.length > 24 ? node.type.slice(0, 23) + "…" : node.type));
    group.addEventListener("click", () => choose_node(number, true));
    groups.push(group);
    svg.append(group);
  });
  space.replaceChildren(svg);
  const view = { ...box };
  const apply = () => {
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    svg.classList.toggle("far", (space.clientWidth || 800) / view.w < .3);  // texts could not be read
  };
  const camera = {
    all() { Object.assign(view, box); apply(); },
    // A large graph seen whole is too small to read: the view begins with the first ops, at a size that can be read.
    start() {
      const width = space.clientWidth || 800, height = space.clientHeight || 600;
      if (Math.min(width / box.w, height / box.h) >= .55) { camera.all(); return; }
      const scale = .85;
      Object.assign(view, { w: width / scale, h: height / scale, y: box.y });
      const seen = graph.nodes.filter((node) => node.y < view.y + view.h);
      view.x = seen.reduce((sum, node) => sum + node.x, 0) / seen.length - view.w / 2;
      apply();
    },
    look(number) {
      const { x, y } = graph.nodes[number];
      const width = Math.min(view.w, 1.3 * (space.clientWidth || 800));
      view.h *= width / view.w; view.w = width;
      view.x = x - view.w / 2; view.y = y - view.h / 2;
      apply();
    },
    next(step) {  // from node to node; while one searches, from hit to hit
      const wanted = groups.some((group) => group.classList.contains("found")) ? (each) => groups[each].classList.contains("found") : () => true;
      for (let tried = 1; tried <= groups.length; tried += 1) {
        const number = (at + step * tried + 2 * groups.length) % groups.length;
        if (wanted(number)) { choose_node(number); camera.look(number); return; }
      }
    },
    reveal(element) {
      const number = groups.indexOf(element);
      if (number >= 0) { choose_node(number); camera.look(number); }
    },
    zoom(factor, at = { x: view.x + view.w / 2, y: view.y + view.h / 2 }) {
      view.x = at.x - (at.x - view.x) * factor; view.y = at.y - (at.y - view.y) * factor;
      view.w *= factor; view.h *= factor; apply();
    },
    move(x, y) { view.x += x * view.w; view.y += y * view.h; apply(); },
    key(event) {
      const acts = { "+": () => camera.zoom(1 / 1.3), "=": () => camera.zoom(1 / 1.3), "-": () => camera.zoom(1.3), "0": () => camera.all(), Home: () => camera.start(), n: () => camera.next(1), p: () => camera.next(-1),
        ArrowLeft: () => camera.move(-.1, 0), ArrowRight: () => camera.move(.1, 0), ArrowUp: () => camera.move(0, -.1), ArrowDown: () => camera.move(0, .1) };
      if (acts[event.key]) { acts[event.key](); event.preventDefault(); }
    },
  };
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
  camera.start();
  return camera;
}

// -- time and memory
const colour = (step) => (step.kind.startsWith("kernel") ? "" : step.kind.includes("product") ? " product" : " other");
function chart(name, height, ...shapes) {
  return draw("svg", { class: "chart", viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": name, style: `height:${height}px` }, ...shapes);
}
function axis(...labels) { return make("div", { class: "axis", "aria-hidden": "true" }, ...labels.map((label) => make("span", {}, label))); }
function timeline() {
  const part = make("section", {});
  const timed = facts.programs.filter((program) => program.steps.length && program.steps[0].microseconds !== null);
  if (!timed.length) { part.append(make("p", { class: "empty" }, "No native program was timed.")); return part; }
  part.append(make("div", { class: "legend" }, ...swatches([["accent", "kernels"], ["output", "matrix products"], ["soft", "other functions"]])));
  part.append(...timed.flatMap((program) => timelineOf(program, program === timed[0])));
  return part;
}
function timelineOf(program, first) {
  const total = program.steps.reduce((sum, step) => sum + step.microseconds, 0);
  const head = make("h2", {}, `${program.title}: ${time(total)} in ${many(program.steps.length, "step")}`);
  const said = make("p", { class: "file said", role: "status" }, first ? "Point at a step, or move along them with the arrow keys." : "");
  let at = 0;
  const bars = program.steps.map((step, number) => {
    const wide = 1000 * step.microseconds / total;
    const bar = draw("rect", { class: "bar" + colour(step), x: at, y: 0, width: Math.max(wide - .6, .4), height: 56,
      "data-lines": step.places.map(key).join("\n"), "data-text": step.ops });
    bar.addEventListener("pointerenter", () => tell(number));
    bar.addEventListener("click", () => { tell(number); choose(step.places.map(key)); });
    at += wide;
    return bar;
  });
  const strip = make("div", { class: "strip", tabindex: "0", role: "slider", "aria-label": "Steps of " + program.title, "aria-valuemin": 0, "aria-valuemax": bars.length - 1, "aria-valuenow": 0 },
    chart("Steps along time", 56, ...bars));
  let current = -1;
  function tell(number) {
    const step = program.steps[number];
    current = number;
    bars.forEach((bar, each) => bar.classList.toggle("current", each === number));
    said.textContent = `${number}: ${step.ops}, ${step.kind}, ${time(step.microseconds)} (${(100 * step.microseconds / total).toFixed(1)} %)` +
      (step.places.length ? ", " + step.places.map(short).join(", ") : "");
    strip.setAttribute("aria-valuenow", number);
    strip.setAttribute("aria-valuetext", said.textContent);
  }
  strip.addEventListener("keydown", (event) => {
    const last = bars.length - 1;
    const to = { ArrowRight: Math.min(current + 1, last), ArrowLeft: Math.max(current - 1, 0), Home: 0, End: last }[event.key];
    if (to !== undefined) { tell(to); event.preventDefault(); }
    if (event.key === "Enter" && current >= 0) choose(program.steps[current].places.map(key));
  });
  const columns = [["figure number", "#"], ["ops", "ops"], ["kind", "step"], ["lines", "lines"], ["figure time", "time"]];
  const rows = program.steps.map((step, number) => [String(number), step.ops, step.kind, step.places.map(short).join(", "), time(step.microseconds)]);
  return [head, strip, axis(...[0, 1, 2, 3, 4].map((tick) => (tick ? time(total * tick / 4) : "0"))), said,
    make("details", {}, make("summary", {}, "as a table"), table(columns, rows))];
}
function memory() {
  const part = make("section", {}), without = [];
  for (const program of facts.programs) {
    const { block, values, live } = program.memory;
    const sum = values.reduce((total, value) => total + value.bytes, 0);
    if (!values.length) { without.push(program.title); continue; }
    part.append(make("h2", {}, `${program.title}: a block of ${bytes(block)} serves ${bytes(sum)} of intermediate values`));
    const width = 1000, height = 220, count = Math.max(live.length, 1), most = Math.max(...live, 1);
    const boxes = values.map((value) => {
      const [first, last] = value.span;
      const tall = Math.max(.8, height * value.bytes / block);
      return draw("rect", { class: "block", x: width * first / count, width: width * (last - first + 1) / count,
        y: Math.max(0, height * (1 - value.offset / block) - tall), height: tall },
        draw("title", {}, `${value.name}\n${bytes(value.bytes)} at ${value.offset}, steps ${first} to ${last}`));
    });
    const ends = () => axis("step 0", `step ${live.length - 1}`);
    part.append(make("p", { class: "file" }, `Where in the block each value lies (0 to ${bytes(block)}, upwards), and from which step to which:`),
      chart("Where values lie, over the steps", height, ...boxes), ends());
    const points = live.map((size, step) => `L${width * step / count} ${100 - 96 * size / most}L${width * (step + 1) / count} ${100 - 96 * size / most}`).join("");
    part.append(make("p", { class: "file" }, `Bytes in use at each step, at most ${bytes(Math.max(...live, 0))}:`),
      chart("Bytes in use", 100, draw("path", { class: "area", d: `M0 100${points}L${width} 100z` })), ends());
  }
  if (without.length) part.append(make("p", { class: "empty" }, `No intermediate value is kept in memory by ${without.join(", ")}.`));
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
    part.append(make("details", {}, make("summary", {}, `${entry.function}: ${many(entry.guards.length, "guard")}, captured in ${time(1000 * entry.milliseconds)}`),
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
  try { history.replaceState(null, "", "#" + parts[number][0].toLowerCase().split(" ")[0]); } catch (error) { /* a notebook's frame has no address */ }
}
tabs.addEventListener("keydown", (event) => {
  const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: parts.length - 1 }[event.key];
  if (to !== undefined) { open((to + parts.length) % parts.length, true); event.preventDefault(); }
});
document.getElementById("title").textContent = facts.title;
document.getElementById("machine").textContent =
  `Weft ${facts.machine.weft}, Python ${facts.machine.python}, ${facts.machine.system}, ${many(facts.machine.threads, "thread")}`;

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
  shown = -1;
  reveal();
});
// The next of what was found: in this part, or in the first that has any.
let shown = -1;
function reveal() {
  if (!made[current].panel.querySelector(".found")) return;
  const hits = [...made[current].panel.querySelectorAll(".found")];
  shown = (shown + 1) % hits.length;
  const { content } = made[current];
  if (content.reveal && hits[shown].closest("svg")) content.reveal(hits[shown]);
  else hits[shown].scrollIntoView({ block: "center" });
}
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !search.value.trim()) return;
  const other = made.findIndex(({ panel }) => panel.querySelector(".found"));
  if (!made[current].panel.querySelector(".found") && other >= 0) { open(other); shown = -1; }
  reveal();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape") {
    if (document.activeElement === search) { search.value = ""; search.dispatchEvent(new Event("input")); search.blur(); }
    else { chosen = new Set(); mark(); }
  }
});

const root = document.documentElement;
const button = document.getElementById("theme");
function theme(name) {
  root.dataset.theme = name;
  button.textContent = name === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", `Change to the ${button.textContent.toLowerCase()} theme`);
}
let kept = null;
try { kept = localStorage.getItem("weft-theme"); } catch (error) { /* pages from files may have no storage */ }
theme(kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
button.addEventListener("click", () => {
  theme(root.dataset.theme === "dark" ? "light" : "dark");
  try { localStorage.setItem("weft-theme", root.dataset.theme); } catch (error) { /* kept nowhere */ }
});
const wanted = parts.findIndex(([name]) => "#" + name.toLowerCase().split(" ")[0] === location.hash);
open(Math.max(wanted, 0));
