"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const ROW = 22, VIEWS = ["tree", "waterfall", "usage", "radix"];
const $ = (id) => document.getElementById(id);

// Values

const spans = new Map();
for (const [id, parent, kind, name, start, end, status, attributes] of data.spans) {
  spans.set(id, { id, parent, kind, name, start, end: end ?? data.end, status, children: [],
    attributes: data.attributes[attributes], generation: data.generations[id] });
}
const roots = [];
for (const span of spans.values()) {
  const parent = spans.get(span.parent);
  (parent ? parent.children : roots).push(span);
}

const count = (n) => n >= 99950 ? (n / 1000).toFixed(0) + "k" : n >= 9999.5 ? (n / 1000).toFixed(1) + "k" : String(n);
const lasted = (us) => us < 99500 ? (us / 1e3).toFixed(us < 9950 ? 1 : 0) + "ms" : us < 9.95e6 ? (us / 1e6).toFixed(2) + "s"
  : us < 59.5e6 ? (us / 1e6).toFixed(0) + "s" : Math.floor(us / 60e6) + "m" + String(Math.round(us / 1e6) % 60).padStart(2, "0") + "s";
const percent = (part, whole) => whole ? Math.round(100 * part / whole) + "%" : "-";

/** What tokens spell, one text a token; a character cut in two is with the token that ends it. */
function spell(runtime, ids) {
  const pieces = data.pieces[runtime] || {}, decoder = new TextDecoder(), encoder = new TextEncoder();
  return ids.map((id) => {
    const piece = pieces[id] ?? "";
    return decoder.decode(typeof piece === "string" ? encoder.encode(piece) : Uint8Array.from(piece), { stream: true });
  });
}

function promptIds(chunk) {
  const parts = [];
  for (; chunk != null; chunk = data.chunks[chunk][0]) parts.push(data.chunks[chunk][1]);
  return parts.reverse().flat();
}

/** Every token of a generation: its text, how it came to be, its alternatives. */
function tokens(g) {
  if (!g.ids) return [];
  const prompt = spell(g.runtime, promptIds(g.chunk));
  const output = spell(g.runtime, g.ids);
  return [
    ...prompt.map((text, at) => ({ text, origin: at < g.cached ? "cached" : "computed" })),
    ...output.map((text, at) => ({ text, origin: g.repaired ? "repaired" : g.kinds && g.kinds[at] === "f" ? "forced" : "sampled",
      id: g.ids[at], logprob: g.logprobs && g.logprobs[at], top: g.top && g.top[at] })),
  ];
}

const outputOf = (span) => span.generation
  ? span.generation.output ?? spell(span.generation.runtime, span.generation.ids || []).join("") : "";
const promptOf = (span) => span.generation
  ? span.generation.prompt ?? spell(span.generation.runtime, promptIds(span.generation.chunk)).join("") : "";

/** What a span is called in a row: of a generation what is done, without the model. */
function label(span) {
  if (!span.generation) return span.name;
  const done = span.name.split(" ")[0];
  return done === "text_completion" ? "generate" : done;
}

function said(span) {
  const a = span.attributes;
  if (span.status === "error") return `${a["error.type"] || "error"}: ${a["exception.message"] || ""}`;
  if (span.generation) return outputOf(span);
  return String(a["gen_ai.tool.call.arguments"] ?? a["agentrt.program.result"] ?? "");
}

/** Ids of spans in which a text occurs, in the order they began. */
function search(text) {
  const needle = text.toLowerCase(), found = [];
  if (!needle) return found;
  for (const span of spans.values()) {
    const texts = [() => span.name, () => JSON.stringify(span.attributes), () => outputOf(span), () => promptOf(span)];
    if (texts.some((make) => make().toLowerCase().includes(needle))) found.push(span.id);
  }
  return found;
}

// The list: only rows on the screen are in the document.

const state = { view: "tree", span: null, token: null, hits: [], hit: -1 };
const opened = new Set();
let rows = [];

function layOut() {
  rows = [];
  const stack = roots.map((span) => [span, 0]).reverse();
  while (stack.length) {
    const [span, depth] = stack.pop();
    rows.push([span, depth]);
    if (opened.has(span.id)) for (let i = span.children.length - 1; i >= 0; i--) stack.push([span.children[i], depth + 1]);
  }
  $("space").style.height = rows.length * ROW + "px";
}

function openAround(room) {
  let level = roots, total = roots.length;
  while (level.length) {
    const below = [];
    for (const span of level) {
      if (!span.children.length || total + span.children.length > room) continue;
      opened.add(span.id);
      total += span.children.length;
      below.push(...span.children);
    }
    level = below;
  }
}

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;  // never markup: texts are a model's
  return element;
};

function drawRows() {
  const list = $("list"), space = $("space");
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
  const last = Math.min(rows.length, first + Math.ceil((list.clientHeight || 600) / ROW) + 10);
  space.replaceChildren(...rows.slice(first, last).map(([span, depth], at) => drawRow(span, depth, first + at)));
}

const SIGNS = { ok: "✓", error: "✗", cancelled: "⊘", running: "●" };

function drawRow(span, depth, at) {
  const row = make("div", `row ${state.view}${span.id === state.span ? " picked" : ""}`);
  row.style.top = at * ROW + "px";
  row.dataset.span = span.id;
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", depth + 1);
  const what = make("span", "what", "  ".repeat(depth));
  what.append(make("span", "fold", span.children.length ? (opened.has(span.id) ? "▾" : "▸") : ""),
    make("span", span.status, SIGNS[span.status] + " "), make("span", span.kind, label(span)));
  row.append(what);
  if (state.view === "waterfall") row.append(drawBars(span));
  else row.append(make("span", "said", said(span).replace(/\s+/g, " ").slice(0, 300)));
  const g = span.generation;
  const took = g && state.view === "tree" ? `${count(g.input ?? 0)}+${count((g.sampled ?? 0) + (g.forced ?? 0))} tok  ` : "";
  row.append(make("span", "ends", took + lasted(span.end - span.start)));
  return row;
}

function drawBars(span) {
  const bars = make("span", "bars"), whole = Math.max(1, data.end);
  const bar = (name, from, length) => {
    const element = make("i", name);
    element.style.left = 100 * from / whole + "%";
    element.style.width = 100 * length / whole + "%";
    element.title = `${name}: ${lasted(length)}`;
    bars.append(element);
  };
  const g = span.generation, phases = g && g.decode_s != null;
  if (phases) {
    const names = ["queue", "prefill", "decode"], spent = names.reduce((sum, name) => sum + g[name + "_s"] * 1e6, 0);
    const scale = Math.min(1, (span.end - span.start) / (spent || 1));  // measured on another clock
    let from = span.start;
    for (const name of names) {
      bar(name, from, g[name + "_s"] * 1e6 * scale);
      from += g[name + "_s"] * 1e6 * scale;
    }
  } else bar(span.kind === "tool" ? "tool" : span.status === "error" ? "span error" : "span", span.start, span.end - span.start);
  return bars;
}

/** What the engine did, above the waterfall and on its time. */
function drawEngine() {
  return data.engine.map(({ name, values, said, style }) => {
    const line = make("div"), lane = make("span", `lane ${style}`);
    for (const value of values) {
      const column = make("i");
      column.style.height = 100 * value + "%";
      lane.append(column);
    }
    line.append(make("span", "what", `engine: ${name}`), lane, make("span", "ends", said));
    return line;
  });
}

// The other views

function drawUsage() {
  const table = make("table"), head = ["program", "calls", "failed", "generations", "computed", "cached", "hit rate", "sampled", "forced", "queue", "prefill", "decode"];
  const row = (tag, values) => {
    const line = make("tr");
    line.append(...values.map((value) => make(tag, "", value)));
    table.append(line);
  };
  row("th", head);
  for (const u of data.usage) row("td", [u.program || "(outside of programs)", u.calls, u.failed, u.generations, count(u.computed_tokens),
    count(u.cached_tokens), percent(u.cached_tokens, u.cached_tokens + u.computed_tokens), count(u.sampled_tokens), count(u.forced_tokens),
    ...["queue_s", "prefill_s", "decode_s"].map((key) => lasted(u[key] * 1e6))]);
  return [table];
}

function drawRadix() {
  const node = (value) => {
    const item = make("li", "", value.text ?? "(not recorded)");
    item.append(make("span", "dim", `  ${value.length} tok${value.locks ? `, ${value.locks} locks` : ""}${value.pinned ? ", pinned" : ""}`));
    item.append(branch(value.children));
    return item;
  };
  const branch = (children) => {
    const list = make("ul");
    list.append(...children.map(node));
    return list;
  };
  if (!data.radix.length) return [make("p", "dim", "The cache was not recorded.")];
  return data.radix.flatMap((tree) => [make("h1", "", tree.namespace ? `${tree.model} / ${tree.namespace}` : tree.model), branch(tree.root.children)]);
}

function drawDetail() {
  const detail = $("detail"), span = spans.get(state.span);
  detail.replaceChildren();
  if (!span) return detail.append(make("p", "dim", "Choose a span: arrow keys, enter, or the mouse."));
  const title = make("h1", "", `${span.name}  `);
  title.append(make("span", "dim", `${span.kind} ${span.id}  ${lasted(span.end - span.start)}  `), make("span", span.status, span.status));
  detail.append(title);
  if (span.generation) detail.append(...drawTokens(span));
  const list = make("dl");
  for (const key of Object.keys(span.attributes).sort()) {
    const value = span.attributes[key];
    list.append(make("dt", "", key), make("dd", "", typeof value === "string" ? value : JSON.stringify(value)));
  }
  detail.append(list);
}

function drawTokens(span) {
  const all = tokens(span.generation), text = make("div", "tokens"), legend = make("p", "legend"), chosen = make("pre", "dim");
  if (!all.length) {
    text.append(make("b", "computed", promptOf(span)), make("b", "sampled", outputOf(span)));
    return [text];
  }
  const counts = {};
  all.forEach((token, at) => {
    counts[token.origin] = (counts[token.origin] || 0) + 1;
    const element = make("b", token.origin, token.text);
    element.dataset.token = at;
    element.title = token.origin;
    text.append(element);
  });
  for (const [origin, number] of Object.entries(counts)) legend.append(make("b", origin, `${origin} ${number}`));
  text.addEventListener("click", (event) => {
    const token = all[event.target.dataset.token];
    if (!token) return;
    text.querySelectorAll(".picked").forEach((other) => other.classList.remove("picked"));
    event.target.classList.add("picked");
    chosen.textContent = alternatives(span.generation, token);
  });
  return [legend, text, chosen];
}

/** A token and what else could have stood in its place, in words. */
function alternatives(g, token) {
  const lines = [`${JSON.stringify(token.text)}  ${token.origin}`];
  for (const [id, logprob] of token.top || [])
    lines.push(`${id === token.id ? ">" : " "} ${(100 * Math.exp(logprob)).toFixed(1).padStart(5)}%  ${JSON.stringify(spell(g.runtime, [id])[0])}`);
  if (!(token.top || []).length) lines.push(token.logprob == null ? "no alternatives recorded" : `${(100 * Math.exp(token.logprob)).toFixed(1)}%`);
  return lines.join("\n");
}

// What is done with them

function show(changes) {
  Object.assign(state, changes);
  const listed = state.view === "tree" || state.view === "waterfall";
  $("spans").hidden = $("detail").hidden = !listed;
  $("page").hidden = listed;
  $("engine").hidden = state.view !== "waterfall" || !data.engine.length;
  document.querySelectorAll("nav button").forEach((b) => b.setAttribute("aria-selected", b.dataset.view === state.view));
  if (listed) { layOut(); drawRows(); } else $("page").replaceChildren(...(state.view === "usage" ? drawUsage() : drawRadix()));
  if ("span" in changes) drawDetail();
  history.replaceState(null, "", `#${state.view}${state.span == null ? "" : "/" + state.span}`);
}

function reveal(id) {
  for (let span = spans.get(spans.get(id).parent); span; span = spans.get(span.parent)) opened.add(span.id);
  show({ span: id, view: state.view === "waterfall" ? "waterfall" : "tree" });
  const at = rows.findIndex(([span]) => span.id === id), list = $("list");
  if (at * ROW < list.scrollTop || (at + 2) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = Math.max(0, at * ROW - list.clientHeight / 2);
  drawRows();
}

function find(text) {
  state.hits = search(text);
  state.hit = -1;
  $("found").textContent = text ? `${state.hits.length} found` : "";
  if (state.hits.length) nextHit(1);
}

function nextHit(by) {
  if (!state.hits.length) return;
  state.hit = (state.hit + by + state.hits.length) % state.hits.length;
  $("found").textContent = `${state.hit + 1} of ${state.hits.length}`;
  reveal(state.hits[state.hit]);
}

function fold(span, open) {
  if (open) opened.add(span.id); else opened.delete(span.id);
  show({});
}

const KEYS = {
  ArrowDown: (at) => rows[at + 1] && reveal(rows[at + 1][0].id),
  ArrowUp: (at) => rows[Math.max(0, at - 1)] && reveal(rows[Math.max(0, at - 1)][0].id),
  ArrowRight: (at) => rows[at] && fold(rows[at][0], true),
  ArrowLeft: (at) => rows[at] && (opened.has(rows[at][0].id) ? fold(rows[at][0], false) : rows[at][0].parent && reveal(rows[at][0].parent)),
  n: () => nextHit(1), N: () => nextHit(-1), "/": () => $("find").focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.target === $("find")) {
    if (event.key === "Enter") { find($("find").value); $("list").focus(); }
    if (event.key === "Escape") $("list").focus();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key](rows.findIndex(([span]) => span.id === state.span));
});
$("list").addEventListener("scroll", drawRows);
$("list").addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (!row) return;
  const span = spans.get(Number(row.dataset.span));
  if (event.target.classList.contains("fold")) fold(span, !opened.has(span.id)); else show({ span: span.id });
});
addEventListener("resize", drawRows);

$("facts").textContent = data.facts;
$("engine").append(...drawEngine());
document.querySelector("h1").textContent = data.run.name;
for (const view of VIEWS) {
  const button = make("button", "", view[0].toUpperCase() + view.slice(1));
  button.dataset.view = view;
  button.setAttribute("role", "tab");
  button.addEventListener("click", () => show({ view }));
  document.querySelector("nav").append(button);
}
openAround(200);
const [view, chosen, query] = location.hash.slice(1).split("/");
show({ view: VIEWS.includes(view) ? view : "tree", span: spans.has(Number(chosen)) ? Number(chosen) : null });
if (state.span != null && !["usage", "radix"].includes(state.view)) reveal(state.span);
if (query) { $("find").value = decodeURIComponent(query); find($("find").value); }
