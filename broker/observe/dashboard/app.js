// app.js - the page: takes the broker's events, keeps five minutes (history.js) behind the hour that the broker kept (past.js), and writes only what has changed.
import {History, SECONDS, STAGES, quantile, mean, sum, modelKey, seriesKey} from "./history.js";
import {chart, spark} from "./charts.js";
import {Past, HOUR, MINUTES} from "./past.js";
import {showTrace} from "./trace.js";
import {attention, plural} from "./attention.js";
import {showPreviews} from "./previews.js";

const $ = id => document.getElementById(id);
const history = new History(), past = new Past(() => state && requestAnimationFrame(draw));
let view = MINUTES;
let state = null, heard = 0, list = "errors", hover = null, picked = null;
const sorts = {models: ["rate", -1], series: ["model", 1], workers: ["name", 1]};

// ---- words for numbers

const digits = v => v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
const count = v => v === null || v === undefined ? "–" : v >= 1e6 ? digits(v / 1e6) + " M" : v >= 1e4 ? digits(v / 1e3) + " k" : Math.round(v).toString();
const rate = v => v === null || v === undefined ? "–" : v >= 1e4 ? digits(v / 1e3) + " k" : v >= 100 || v === 0 ? v.toFixed(0) : v.toFixed(1);
const time = us => us === null || us === undefined ? "–" : us >= 6e7 ? (us / 6e7).toFixed(1) + " min" : us >= 1e6 ? digits(us / 1e6) + " s" : us >= 1e3 ? digits(us / 1e3) + " ms" : Math.round(us) + " µs";
const bytes = v => v >= 2 ** 30 ? digits(v / 2 ** 30) + " GiB" : v >= 2 ** 20 ? digits(v / 2 ** 20) + " MiB" : v >= 1024 ? digits(v / 1024) + " KiB" : v + " B";
const percent = v => v === null || Number.isNaN(v) ? "–" : (100 * v).toFixed(v > 0 && v < 0.1 ? 1 : 0) + " %";
const age = us => us >= 864e8 ? Math.floor(us / 864e8) + " d" : us >= 36e8 ? Math.floor(us / 36e8) + " h " + Math.floor(us / 6e7) % 60 + " min" : us >= 6e7 ? Math.floor(us / 6e7) + " min" : Math.floor(us / 1e6) + " s";

const ago = s => s < 120 ? `${s} s ago` : `${Math.floor(s / 60)} min ago`;

// ---- small DOM

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name.startsWith("on") ? element.addEventListener(name.slice(2), value) : element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const mark = (element, name) => { if (element.className !== name) element.className = name; };

// A table whose rows stay the same elements while their keys do. columns: {id, title, width, left, wide, sort, cell(td, row)}.
function table(id, columns, {open, empty} = {}) {
  const root = $(id), body = make("tbody"), rows = new Map(), heads = new Map();
  const head = make("tr"), group = make("colgroup");
  for (const c of columns) {
    const th = make("th", {scope: "col", class: `${c.left ? "left" : ""} ${c.wide ? "wide" : ""}`});
    th.append(c.sort ? make("button", {onclick: () => { sorts[id] = [c.id, sorts[id]?.[0] === c.id ? -sorts[id][1] : c.left ? 1 : -1]; draw(); }}, c.title) : c.title);
    if (c.hint) th.title = c.hint;
    heads.set(c.id, th);
    head.append(th);
    const col = make("col", {class: c.wide ? "wide" : ""});
    if (c.width) col.style.width = c.width + "px";
    group.append(col);
  }
  root.append(group, make("thead", {}, head), body);
  const none = make("tr", {}, make("td", {colspan: columns.length, class: "empty"}, empty));
  return data => {
    const [by, way] = sorts[id] ?? [], column = columns.find(c => c.id === by);
    if (column?.sort) data = [...data].sort((a, b) => { const x = column.sort(a), y = column.sort(b); return way * (x < y ? -1 : x > y ? 1 : 0); });
    for (const [c, th] of heads) c === by ? th.setAttribute("aria-sort", way > 0 ? "ascending" : "descending") : th.removeAttribute("aria-sort");
    const seen = new Set();
    let at = body.firstChild;
    for (const row of data) {
      seen.add(row.key);
      let tr = rows.get(row.key);
      if (!tr) {
        tr = make("tr", {class: open ? "live" : ""}, ...columns.map(c => make("td", {class: `${c.left ? "left" : ""} ${c.wide ? "wide" : ""} ${c.mono ? "mono" : ""} ${c.name ? "name" : ""}`, "data-title": c.card ?? c.title})));
        if (open) tr.addEventListener("click", () => open(tr.row));
        rows.set(row.key, tr);
      }
      tr.row = row;
      columns.forEach((c, i) => c.cell(tr.cells[i], row));
      if (tr === at) at = at.nextSibling; else body.insertBefore(tr, at);
    }
    for (const [key, tr] of rows) if (!seen.has(key)) { if (at === tr) at = tr.nextSibling; tr.remove(); rows.delete(key); }
    data.length ? none.remove() : body.append(none);
  };
}
const text = value => (td, row) => put(td, String(value(row)));
const opener = (label, act) => (td, row) => {
  if (!td.firstChild) td.append(make("button", {class: "open", onclick: event => { event.stopPropagation(); act(td.parentNode.row); }}));
  put(td.firstChild, label(row));
  td.title = label(row);
};
const tone = (value, name) => (td, row) => { put(td, String(value(row))); td.classList.toggle("bad-text", name(row) === "bad"); td.classList.toggle("warn-text", name(row) === "warn"); };

// ---- what is shown: everything, or one model (#/model/NAME/VERSION)

function scope() {
  const match = /^#\/model\/(.+)\/(\d+)$/.exec(location.hash);
  return match ? {name: decodeURIComponent(match[1]), version: Number(match[2])} : null;
}
const inScope = (row, s = scope()) => !s || ((row.model ?? row.name) === s.name && row.version === s.version);
const toModel = row => { location.hash = `#/model/${encodeURIComponent(row.model ?? row.name)}/${row.version}`; };

function drawScope() {
  const s = scope(), nav = $("scope"), wanted = s ? `${s.name} v${s.version}` : "";
  if (nav.dataset.shown === wanted) return;
  nav.dataset.shown = wanted;
  nav.replaceChildren(...(s ? [make("button", {class: "chip", "aria-label": `Model ${wanted}: show all models`, onclick: () => { location.hash = ""; }}, `${wanted}  ✕`)] : []));
}

// ---- the head

function drawHealth() {
  const silent = Date.now() - heard > 3500;
  const [word, name] = !state ? ["connecting", ""] : silent ? ["no word from the broker", "bad"] : state.silent ? ["the loop is silent", "bad"]
    : state.draining ? ["draining", "warn"] : state.ready ? ["ready", "good"] : ["no worker is ready", "bad"];
  put($("health"), word);
  mark($("health"), `pill ${name}`);
  if (state) put($("about"), `${state.software} · up ${age(state.uptime_us)} · ${count(state.clients)} ${plural(state.clients, "client")}`);
  document.title = name === "good" || !state ? "Penstock" : `${word} · Penstock`;
}

function drawAttention() {
  const d = history.recent("pool", 10), wrong = (d.failed || 0) + (d.rejected || 0), share = wrong / Math.max(1, wrong + (doneOf(d) || 0));
  const found = attention(state, {time, percent, count, share}), button = $("attention"), worst = found.some(f => f.tone === "bad") ? "bad" : found.length ? "warn" : "";
  put(button, found.length === 0 ? "all is well" : found.length === 1 ? "1 thing needs a look" : `${found.length} things need a look`);
  mark(button, `pill ${worst || "good"}`);
  if (picked?.attention) {
    const list = make("ul", {class: "attention"}, ...found.map(f => make("li", {class: f.tone}, f.hash ? make("a", {href: f.hash, onclick: () => $("detail").close()}, f.text) : f.text)));
    $("detail-body").replaceChildren(found.length ? list : make("p", {class: "quiet"}, "Nothing: every model is served, every worker is heard."));
  }
}

const keysInScope = () => state.series.filter(s => inScope(s)).map(seriesKey);
const poolKey = () => { const s = scope(); return s ? "m" + modelKey(s) : "pool"; };
const doneOf = d => d.done ?? d.computed + d.coalesced + d.cached;

const perSecond = value => p => p.span_ms ? value(p) / (p.span_ms / 1e3) : null;

function tileData() {
  const key = poolKey(), d = history.recent(key, 5), keys = keysInScope(), s = scope();
  const live = s ? state.models.find(m => inScope(m)) ?? {queued: 0, running: 0, ready: 0, offers: 0} : null;
  const total = history.stageLine(keys, "total", c => quantile(c, state.bounds_us, 0.5), 5);
  const tail = history.stageLine(keys, "total", c => quantile(c, state.bounds_us, 0.99), 5);
  const line = (live, value) => past.line(key, MINUTES, state.now_us, live, history.clock.length, value);
  const ready = live ? live.ready : state.workers.filter(w => w.state === "ready").length, all = live ? live.offers : state.workers.length;
  const hits = (d.hits ?? d.cached) || 0, asked = hits + (d.misses || 0), bad = ((d.failed || 0) + (d.rejected || 0)) / d.seconds;
  return [
    ["Jobs per second", rate(doneOf(d) / d.seconds || 0), "", line(history.line(key, (x, t) => doneOf(x) / t), perSecond(p => p.done)), "--a"],
    ["Median latency", time(total.at(-1)), "", line(total, p => p.p50_us), "--a"],
    ["99th percentile", time(tail.at(-1)), "", line(tail, p => p.p99_us), "--c"],
    ["Waiting", count(live ? live.queued : state.queued), `${count(live ? live.running : state.running)} running`, line(history.line(key, x => x.queued), p => p.queued), "--b"],
    ["Workers ready", count(ready), `of ${all}`, null, "--d", ready === 0],
    ["Cache hits", percent(asked ? hits / asked : null), "", line(history.line(key, x => { const h = x.hits ?? x.cached, n = h + x.misses; return n ? h / n : null; }), p => p.hits + p.misses ? p.hits / (p.hits + p.misses) : null), "--d"],
    ["Errors per second", rate(bad), "", line(history.line(key, (x, t) => (x.failed + x.rejected) / t), perSecond(p => p.failed + p.rejected)), "--c", bad > 0],
  ];
}

function drawTiles() {
  const root = $("tiles"), data = tileData();
  if (!root.firstChild)
    for (const [name] of data)
      root.append(make("div", {class: "tile"}, make("span", {class: "name"}, name), make("span", {class: "value"}, make("span"), make("small")), make("canvas", {"aria-hidden": "true"})));
  data.forEach(([, value, more, values, color, bad], i) => {
    const tile = root.children[i];
    put(tile.children[1].children[0], value);
    put(tile.children[1].children[1], more);
    tile.classList.toggle("bad", Boolean(bad));
    if (values) spark(tile.children[2], values.slice(-Math.min(120, shownSteps(MINUTES))), color);
  });
}

// ---- the charts

// As much of the past as is known, by the broker or by this page: a young pool shows its first seconds in full width.
function shownSteps(of) {
  const known = Math.max(history.clock.length, past.seconds(poolKey(), state.now_us)) / of.step;
  return (of === HOUR ? [60, 180, 360, HOUR.steps] : [20, 60, 150, SECONDS]).find(s => s >= known) ?? of.steps;
}

function charts() {
  const key = poolKey(), keys = keysInScope(), bounds = state.bounds_us;
  const line = (live, value) => past.line(key, view, state.now_us, live, history.clock.length, value);
  const at = (q, name) => line(history.stageLine(keys, "total", c => quantile(c, bounds, q)), p => p[name]);
  const decodes = state.series.some(s => s.decode?.some(n => n > 0)); // of pictures
  const stage = name => line(history.stageLine(keys, name, c => mean(c, bounds)), p => p[name + "_us"]);
  return [
    ["rate", rate, false, [["done", "--a", line(history.line(key, (d, t) => doneOf(d) / t), perSecond(p => p.done)), true], ["failed", "--c", line(history.line(key, (d, t) => (d.failed + d.rejected) / t), perSecond(p => p.failed + p.rejected))]]],
    ["latency", time, false, [["p50", "--a", at(0.5, "p50_us")], ["p95", "--b", at(0.95, "p95_us")], ["p99", "--c", at(0.99, "p99_us")]]],
    ["stages", time, true, [["queue", "--b", stage("queue")], ["transfer", "--e", stage("transfer")], ...(decodes ? [["decode", "--c", stage("decode")]] : []), ["compute", "--d", stage("compute")]]],
    ["queue", count, false, [["waiting", "--b", line(history.line(key, d => d.queued), p => p.queued), true], ["running", "--d", line(history.line(key, d => d.running), p => p.running)]]],
  ];
}

function drawCharts() {
  past.want(scope(), state.broker);
  for (const button of $("view").children) button.setAttribute("aria-pressed", String((button.dataset.view === "hour") === (view === HOUR)));
  for (const [name, format, stacked, lines] of charts()) {
    const canvas = $("chart-" + name), legend = $("legend-" + name);
    const steps = shownSteps(view);
    const index = chart(canvas, {lines: lines.map(([, color, values, fill]) => ({color, values: values.slice(-steps), fill})), seconds: steps * view.step, format, stacked, hover, floor: format === time ? 1000 : 4});
    if (legend.children.length !== lines.length + 1) {
      legend.replaceChildren(...lines.map(([label, color]) => make("span", {}, make("i", {class: "c-" + color.slice(2)}), label + " ", make("b"))), make("span"));
    }
    lines.forEach(([, , values], i) => put(legend.children[i].lastChild, format(values[values.length - steps + (index ?? steps - 1)])));
    put(legend.lastChild, index === null ? "" : ago((steps - 1 - index) * view.step));
    canvas.setAttribute("aria-label", lines.map(([label, , values]) => `${label} ${format(values.at(-1))}`).join(", "));
  }
}

// ---- tables

const range = (low, high, max, color) => td => {
  if (!td.firstChild) td.append(make("div", {class: "range"}, make("span")));
  const bar = td.firstChild.firstChild, scale = v => max > 0 ? 100 * Math.min(1, Math.sqrt(v / max)) : 0;
  bar.className = "c-" + color;
  bar.hidden = low === null;
  bar.style.left = scale(low ?? 0) + "%";
  bar.style.width = Math.max(0, scale(high ?? 0) - scale(low ?? 0)) + "%";
};

// Models that some worker has and none serves, one row each.
const failedRows = () => [...new Map((state.failures ?? []).filter(f => !f.serving && !state.models.some(m => m.name === f.model && (!f.version || m.version === f.version)))
  .map(f => [`failed\n${f.model}\n${f.version}`, f])).entries()].map(([key, f]) => ({key, name: f.model, version: f.version, error: `${f.worker} cannot load it: ${f.error}`, rate: null, p50: null, p99: null, queued: null, running: null,
    batch: null, hit: null, ready: -1, wrong: null}));

const modelRows = () => state.models.map(m => {
  const d = history.recent("m" + modelKey(m)), keys = state.series.filter(s => modelKey(s) === modelKey(m)).map(seriesKey);
  const counts = keys.map(k => history.recent("s" + k)).reduce((a, r) => { (r.total ?? []).forEach((v, i) => { a[i] = (a[i] || 0) + v; }); return a; }, []);
  const hits = d.cached || 0, batches = keys.map(k => history.recent("s" + k));
  const jobs = sum(batches.map(b => b.batch_jobs)), n = sum(batches.map(b => sum(b.batches ?? [])));
  return {...m, key: modelKey(m), rate: (d.computed + d.coalesced + d.cached) / d.seconds || 0, p50: quantile(counts, state.bounds_us, 0.5), p99: quantile(counts, state.bounds_us, 0.99),
          hit: hits + d.misses > 0 ? hits / (hits + d.misses) : null, batch: n ? jobs / n : null, wrong: m.failed + m.rejected};
});

// A worker refuses a change of a model that it serves.
function refusal(r) {
  const f = (state.failures ?? []).find(x => x.serving && x.model === r.name && (!x.version || x.version === r.version));
  return f ? `${f.worker} refuses a change: ${f.error}` : "";
}
function said(td, sentence) {
  if (!td.children[1]) { if (!sentence) return; td.append(make("small", {class: "quiet"})); }
  put(td.children[1], sentence);
}
const openModel = opener(r => r.version ? `${r.name} v${r.version}` : r.name, r => r.error ? pick({attention: true}) : toModel(r));

const drawModels = table("models", [
  {id: "name", title: "Model", left: true, sort: r => r.name, name: true, cell: (td, r) => { openModel(td, r); said(td, r.error ?? refusal(r)); }},
  {id: "trend", title: "trend", width: 120, wide: true, cell: (td, r) => { if (r.error) return; if (!td.firstChild) td.append(make("canvas", {class: "spark", "aria-hidden": "true"})); spark(td.firstChild, history.line("m" + r.key, (d, t) => doneOf(d) / t).slice(-Math.min(SECONDS, Math.max(20, history.clock.length))), "--a"); }},
  {id: "rate", title: "jobs/s", width: 76, sort: r => r.rate, cell: text(r => rate(r.rate))},
  {id: "p50", title: "p50", width: 80, sort: r => r.p50 ?? 0, cell: text(r => time(r.p50))},
  {id: "p99", title: "p99", width: 80, sort: r => r.p99 ?? 0, cell: text(r => time(r.p99))},
  {id: "queued", title: "waiting", width: 74, sort: r => r.queued, cell: text(r => count(r.queued))},
  {id: "running", title: "running", width: 74, wide: true, sort: r => r.running, cell: text(r => count(r.running))},
  {id: "batch", title: "batch", hint: "jobs per batch", width: 66, wide: true, sort: r => r.batch ?? 0, cell: text(r => r.batch === null ? "–" : digits(r.batch))},
  {id: "hit", title: "cache", hint: "hits of the last 10 s", width: 66, wide: true, sort: r => r.hit ?? 0, cell: text(r => percent(r.hit))},
  {id: "ready", title: "workers", width: 76, sort: r => r.ready, cell: tone(r => r.error ? "failed" : `${r.ready}/${r.offers}`, r => r.ready <= 0 ? "bad" : r.ready < r.offers ? "warn" : "")},
  {id: "wrong", title: "errors", hint: "failed or rejected since the start", width: 70, wide: true, sort: r => r.wrong, cell: tone(r => count(r.wrong), r => r.wrong ? "bad" : "")},
], {open: r => r.error ? pick({attention: true}) : toModel(r), empty: "No worker offers a model yet. Start one: penstock-worker --models FOLDER"});

const seriesRows = () => state.series.filter(s => inScope(s)).map(s => {
  const d = history.recent("s" + seriesKey(s)), q = (stage, share) => quantile(d[stage] ?? [], state.bounds_us, share), n = sum(d.batches ?? []);
  return {...s, key: seriesKey(s), rate: sum(d.total ?? []) / d.seconds, busy: (d.busy_us || 0) / 1e6 / d.seconds, batch: n ? d.batch_jobs / n : null,
          q50: q("queue", 0.5), q99: q("queue", 0.99), c50: q("compute", 0.5), c99: q("compute", 0.99), t50: q("total", 0.5), t99: q("total", 0.99), off: q("error", 0.5)};
});
let longest = 0;

const drawSeries = table("series", [
  {id: "model", title: "Model", left: true, name: true, width: 210, sort: r => `${r.model} ${r.version} ${r.backend}`, cell: opener(r => `${r.model} v${r.version}`, toModel)},
  {id: "backend", title: "Backend", left: true, width: 126, sort: r => r.backend, cell: (td, r) => { put(td, `${r.backend} ${r.precision}`); td.title = td.textContent; }},
  {id: "rate", title: "jobs/s", width: 74, sort: r => r.rate, cell: text(r => rate(r.rate))},
  {id: "bar", title: "spread", left: true, wide: true, cell: (td, r) => range(r.c50, r.c99, longest, "d")(td)},
  {id: "c50", title: "compute", width: 82, sort: r => r.c50 ?? 0, cell: text(r => time(r.c50))},
  {id: "c99", title: "p99", card: "compute p99", width: 78, wide: true, sort: r => r.c99 ?? 0, cell: text(r => time(r.c99))},
  {id: "q50", title: "queue", width: 78, wide: true, sort: r => r.q50 ?? 0, cell: text(r => time(r.q50))},
  {id: "t50", title: "total", width: 78, sort: r => r.t50 ?? 0, cell: text(r => time(r.t50))},
  {id: "t99", title: "p99", card: "total p99", width: 78, sort: r => r.t99 ?? 0, cell: text(r => time(r.t99))},
  {id: "batch", title: "batch", hint: "jobs per batch", width: 60, wide: true, sort: r => r.batch ?? 0, cell: text(r => r.batch === null ? "–" : digits(r.batch))},
  {id: "busy", title: "slots busy", width: 84, wide: true, sort: r => r.busy, cell: text(r => r.busy.toFixed(2))},
  {id: "desired", title: "workers wanted", hint: "so many would keep their slots 70 % busy and work the queue off within 10 s", width: 112, wide: true, sort: r => r.desired, cell: text(r => r.desired)},
  {id: "off", title: "guess off by", hint: "how far the broker's guess of a batch's time is from the time it takes, in the median", width: 96, wide: true, sort: r => r.off ?? 0, cell: text(r => time(r.off))},
], {open: toModel, empty: "No job has run yet. Try: penstock load --model NAME"});

function workerRows() {
  const s = scope(), index = s ? state.models.findIndex(m => inScope(m)) : -1;
  return state.workers.filter(w => !s || w.models.some(m => m[0] === index)).map(w => {
    const d = history.recent("w" + w.uuid);
    return {...w, key: w.uuid, rate: (d.done || 0) / d.seconds, load: Math.min(1, w.running / Math.max(1, w.slots)), classes: [...new Set(w.models.map(m => m[2]))].join(" ") || "–"};
  });
}
// What was measured of the models of a worker: [source, largest, mean, sets of inputs], "measuring", or null.
const ratio = v => v === null ? "no number" : v === 0 ? "0" : v.toExponential(1);
const errorOf = e => e === "measuring" ? "being measured" : !e ? "not measured" : e[0] === "reference" ? "the reference itself" : e[0] === "steps" ? `at most ${ratio(e[1])} (its last steps)`
  : `at most ${ratio(e[1])}, ${ratio(e[2])} on average (${e[3]} ${e[0]} ${plural(e[3], "set")} of inputs)`;
const errorLines = r => r.models.map(m => `${state.models[m[0]]?.name ?? "?"} v${state.models[m[0]]?.version ?? "?"} in ${m[2]}: ${errorOf(m[3])}`);
// The worst of them; models without a number are not counted.
const worstError = r => r.models.reduce((worst, m) => Array.isArray(m[3]) ? Math.max(worst ?? 0, m[3][1] ?? Infinity) : worst, null);

const stateTone = r => r.state === "ready" ? "" : r.state === "suspect" ? "bad" : "warn";

const drawWorkers = table("workers", [
  {id: "name", title: "Worker", left: true, name: true, sort: r => r.name, cell: opener(r => r.name, r => pick({worker: r.uuid}))},
  {id: "state", title: "State", left: true, width: 78, sort: r => r.state, cell: tone(r => r.state, stateTone)},
  {id: "backend", title: "Backend", left: true, width: 96, sort: r => r.backend, cell: text(r => r.backend)},
  {id: "class", title: "Precision", left: true, width: 86, wide: true, cell: text(r => r.classes)},
  {id: "off", title: "error", hint: "largest relative error of its models' answers against the reference, as it was measured", width: 78, wide: true, sort: r => worstError(r) ?? -1, cell: (td, r) => { const e = worstError(r); put(td, e === null ? "–" : Number.isFinite(e) ? ratio(e) : "no number"); td.title = errorLines(r).join("\n"); }},
  {id: "device", title: "Device", left: true, wide: true, sort: r => r.device, cell: (td, r) => { put(td, r.device); td.title = r.device; }},
  {id: "load", title: "busy", hint: "share of its slots' time, over 15 s", left: true, width: 110, wide: true, sort: r => r.busy_permille, cell: (td, r) => {
    if (!td.firstChild) td.append(make("div", {class: "meter"}, make("span")));
    td.firstChild.firstChild.style.width = r.busy_permille / 10 + "%";
    td.title = `${percent(r.busy_permille / 1000)} of the time, ${r.running} ${plural(r.running, "job")} on ${r.slots} ${plural(r.slots, "slot")} now`;
  }},
  {id: "warm", title: "warm", hint: "models whose batch sizes have all been run", width: 62, wide: true, sort: r => r.warm, cell: tone(r => `${r.warm}/${r.models.length}`, r => r.warm < r.models.length ? "warn" : "")},
  {id: "running", title: "running", width: 72, sort: r => r.running, cell: text(r => r.running)},
  {id: "rate", title: "jobs/s", width: 72, sort: r => r.rate, cell: text(r => rate(r.rate))},
  {id: "backlog", title: "backlog", width: 80, wide: true, sort: r => r.backlog_us, cell: text(r => time(r.backlog_us))},
  {id: "done", title: "done", width: 72, wide: true, sort: r => r.done, cell: text(r => count(r.done))},
  {id: "failed", title: "failed", width: 62, wide: true, sort: r => r.failed, cell: tone(r => count(r.failed), r => r.failed ? "bad" : "")},
  {id: "memory", title: "memory", width: 86, wide: true, sort: r => r.rss_bytes, cell: text(r => r.rss_bytes ? bytes(r.rss_bytes) : "–")},
], {open: r => pick({worker: r.uuid}), empty: "No worker is connected."});

// A link that can be copied and sent; a click opens the job here.
function jobLink(td, r) {
  if (!td.firstChild) td.append(make("a", {class: "open", onclick: event => { if (event.ctrlKey || event.metaKey || event.shiftKey) return; event.preventDefault(); event.stopPropagation(); pick({job: td.parentNode.row}); }}));
  const href = `#/job/${r.job}`;
  if (td.firstChild.getAttribute("href") !== href) td.firstChild.setAttribute("href", href);
  put(td.firstChild, r.job);
}

const lifeRows = rows => rows.filter(r => inScope(r)).map(r => ({...r, key: r.job + r.ended_us}));
const drawJobs = table("jobs", [
  {id: "job", title: "Job", left: true, mono: true, name: true, cell: jobLink},
  {id: "model", title: "Model", left: true, name: true, wide: true, width: 130, cell: text(r => r.model)},
  {id: "status", title: "Ended", left: true, width: 112, cell: tone(r => r.status === "OK" || r.status === "CANCELLED" ? r.how : r.status, r => r.status === "OK" || r.status === "CANCELLED" ? "" : "bad")},
  {id: "worker", title: "Worker", left: true, wide: true, width: 130, cell: text(r => r.worker || "–")},
  {id: "error", title: "Said", left: true, wide: true, cell: (td, r) => { put(td, r.error || "–"); td.title = r.error; }},
  {id: "total", title: "total", width: 78, cell: text(r => time(r.total_us))},
  {id: "when", title: "ago", width: 66, cell: text(r => age(Math.max(0, state.now_us - r.ended_us)))},
], {open: r => pick({job: r}), empty: "None so far."});

function drawLists() {
  const rows = lifeRows(state[list]);
  if (list === "slow") rows.sort((a, b) => b.total_us - a.total_us);
  drawJobs(rows);
  for (const tab of $("tabs").children) {
    const on = tab.dataset.list === list;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
  }
  $("jobs-panel").setAttribute("aria-labelledby", "tab-" + list);
}

function pairs(root, rows) {
  if (root.children.length !== rows.length * 2) root.replaceChildren(...rows.flatMap(([name]) => [make("dt", {}, name), make("dd")]));
  rows.forEach(([name, value, bad], i) => { put(root.children[2 * i], name); put(root.children[2 * i + 1], String(value)); root.children[2 * i + 1].classList.toggle("bad-text", Boolean(bad)); });
}

// What came out of the jobs that are copied to another version.
function shadowFact(s) {
  const parts = [`${count(s.compared)} compared`, s.rows ? `first class the same in ${percent(s.same / s.rows)}` : `${count(s.unlike)} not alike`, `largest error ${s.largest_error === null ? "infinite" : s.largest_error.toPrecision(3)}`];
  if (s.original_us > 0) parts.push(`${(s.copy_us / s.original_us).toFixed(2)} times as long`);
  if (s.failed) parts.push(`${count(s.failed)} failed`);
  if (s.went_back) parts.push("a label went back");
  return [`Shadow of ${s.model}: v${s.version}`, parts.join(", "), s.failed > 0 || s.went_back > 0];
}

function drawFacts() {
  const c = state.cache;
  pairs($("facts"), [["Cache", c.kind], ["State", c.state, c.state !== "ok"], ["Hits / misses", `${count(c.hits)} / ${count(c.misses)}`], ["Entries", `${count(c.entries)} · ${bytes(c.bytes)}`], ["Evicted", count(c.evicted)],
    ["Got an equal job's answer", count(state.coalesced)], ["Sent again after a loss", count(state.requeued)], ["Workers lost", count(state.workers_lost), state.workers_lost > 0],
    ["Expired / cancelled", `${count(state.expired)} / ${count(state.cancelled)}`], ["Replies kept", count(state.replies_kept)], ["Bytes in / out", `${bytes(state.bytes_in)} / ${bytes(state.bytes_out)}`], ["Memory of the broker", bytes(state.rss_bytes)],
    ...(state.shadows ?? []).map(shadowFact)]);
}

// ---- one job, one worker

function pick(what) {
  picked = what;
  $("detail-body").replaceChildren();
  drawDetail();
  if (!$("detail").open) $("detail").showModal();
}

function drawLife(job, body) {
  const idle = Math.max(0, job.worker_us - job.compute_us - (job.decode_us || 0)), rest = Math.max(0, job.total_us - job.queue_us - job.transfer_us - job.worker_us);
  const steps = [["waited in the broker", job.queue_us, "b"], ["on the way to the worker and back", job.transfer_us, "e"], ["waited at the worker", idle, "q"], ["decoded its pictures", job.decode_us || 0, "c"], ["computed", job.compute_us, "d"], ["not accounted for", rest, "a"]].filter(s => s[1] > 0);
  const bar = make("div", {class: "life", role: "img", "aria-label": steps.map(s => `${s[0]} ${time(s[1])}`).join(", ")}, ...steps.map(s => { const part = make("span", {class: "c-" + s[2]}); part.style.flexGrow = s[1]; return part; }));
  const items = steps.map(s => make("li", {}, make("i", {class: "c-" + s[2]}), make("span", {}, s[0]), make("b", {}, time(s[1])), make("em", {}, percent(s[1] / job.total_us))));
  const facts = make("dl");
  pairs(facts, [["Ended", `${job.status} (${job.how}), ${age(Math.max(0, state.now_us - job.ended_us))} ago, ${time(job.total_us)} after it came`], ["Model", `${job.model} v${job.version}`],
    ["Ran on", job.worker ? `${job.worker}, ${job.backend} ${job.precision}` : "no worker"], ["Batch", job.batch ? `${job.batch} ${plural(job.batch, "job")}, closed: ${job.reason}` : "–"], ["Attempts", job.attempts], ["Trace", `penstock trace ${job.job}`], ["In the logs", `grep job=${job.job}`]]);
  const trace = make("div", {class: "trace"});
  body.append(...(steps.length ? [bar, make("ul", {class: "life-steps"}, ...items)] : []), ...(job.error ? [make("p", {class: "said"}, job.error)] : []), facts, trace);
  showTrace(trace, job.job, time);
}

function drawWorker(uuid, body) {
  const w = state.workers.find(x => x.uuid === uuid), failures = (state.failures ?? []).filter(f => f.uuid === uuid), facts = body.querySelector("dl") ?? make("dl");
  if (!w) { body.replaceChildren(make("p", {class: "said"}, "This worker is not connected any more.")); return; }
  pairs(facts, [["State", w.state, w.state === "suspect"], ["Host", w.host], ["Backend", `${w.backend} on ${w.device}`], ["Software", w.software], ["Slots", `${w.slots} of ${w.threads} ${plural(w.threads, "thread")}`], ["Running", `${w.running} ${plural(w.running, "job")}, backlog ${time(w.backlog_us)}`],
    ["Done / failed / cancelled", `${count(w.done)} / ${count(w.failed)} / ${count(w.cancelled)}`], ["Bad results", count(w.results_bad)], ["Busy", percent(w.busy_permille / 1000)], ["Memory", `${bytes(w.rss_bytes)} resident; models hold ${bytes(w.memory_used_bytes)} of ${bytes(w.memory_bytes)}`], ["Warm", `${w.warm} of ${w.models.length} ${plural(w.models.length, "model")}`], ["Cannot load", failures.map(f => `${f.version ? `${f.model} v${f.version}` : f.model}: ${f.error}`).concat(w.unserved > failures.length ? [`${w.unserved - failures.length} more`] : []).join("; ") || "nothing", w.unserved > 0], ["Connected", age(w.age_us)], ["Last heard", time(w.last_seen_us) + " ago"], ["uuid", w.uuid],
    ["Models", w.models.map(([i, us, precision, error]) => `${state.models[i]?.name ?? "?"} v${state.models[i]?.version} ${precision}: ${time(us)} expected, error ${errorOf(error)}`).join("; ") || "none"]]);
  if (!facts.parentNode) body.append(facts);
}

function drawDetail() {
  const body = $("detail-body");
  if (picked?.trace && !body.firstChild) {
    const trace = make("div", {class: "trace"});
    put($("detail-title"), `Job ${picked.trace}`);
    body.append(trace);
    showTrace(trace, picked.trace, time);
  }
  if (picked?.attention) { put($("detail-title"), "What needs a look"); drawAttention(); }
  if (picked?.job && !body.firstChild) { put($("detail-title"), `Job ${picked.job.job}`); drawLife(picked.job, body); }
  if (picked?.worker) { put($("detail-title"), `Worker ${state.workers.find(w => w.uuid === picked.worker)?.name ?? picked.worker}`); drawWorker(picked.worker, body); }
}

// #/job/ID: what is listed of it, or its trace alone.
function openLinked() {
  const id = /^#\/job\/([0-9a-f]{16}-\d+)$/.exec(location.hash)?.[1];
  if (!id || picked?.linked === id) return;
  const job = [...state.errors, ...state.slow, ...state.recent].find(r => r.job === id);
  pick({...(job ? {job} : {trace: id}), linked: id});
}

// ---- timers

// A table that nobody sees is drawn when its rows come or go, when somebody acts, and when it is scrolled into view: of 200 workers' numbers
// a few dozen are on the screen.
const seen = new Set(), drawnFor = new Map();
let acted = true;
const watcher = new IntersectionObserver(entries => {
  for (const e of entries) e.isIntersecting ? seen.add(e.target.id) : seen.delete(e.target.id);
  if (state?.models) requestAnimationFrame(draw);
}, {rootMargin: "200px"});
for (const id of ["models", "series", "workers", "jobs"]) watcher.observe($(id));
function whenSeen(id, rows, act) {
  const key = `${rows} ${location.hash} ${list}`;
  if (!acted && !seen.has(id) && drawnFor.get(id) === key) return;
  drawnFor.set(id, key);
  act();
}
addEventListener("click", () => { acted = true; }, true);
addEventListener("keydown", () => { acted = true; }, true);

function draw() {
  drawHealth();
  if (!state?.models) return;
  drawScope();
  drawAttention();
  drawTiles();
  drawCharts();
  put($("models-count"), String(state.models.length));
  put($("workers-count"), String(state.workers.length));
  whenSeen("models", `${state.models.length} ${(state.failures ?? []).length}`, () => drawModels([...modelRows(), ...(scope() ? [] : failedRows())]));
  whenSeen("series", state.series.length, () => {
    const series = seriesRows();
    longest = Math.max(0, ...series.map(s => s.c99 ?? 0));
    drawSeries(series);
  });
  whenSeen("workers", state.workers.length, () => drawWorkers(workerRows()));
  whenSeen("jobs", "", drawLists);
  drawFacts();
  showPreviews($("previews"), state.preview, scope());
  openLinked();
  if ($("detail").open) drawDetail();
  document.body.classList.remove("waiting");
  acted = false;
}

function listen() {
  const source = new EventSource("/events");
  source.onmessage = event => {
    heard = Date.now();
    state = JSON.parse(event.data);
    history.take(state);
    requestAnimationFrame(draw);
  };
  source.addEventListener("silent", () => { heard = Date.now(); if (state) state.silent = true; drawHealth(); });
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000); };
}

for (const tab of $("tabs").children) {
  tab.addEventListener("click", () => { list = tab.dataset.list; draw(); });
  tab.addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key], tabs = [...$("tabs").children];
    if (step) { const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]; next.click(); next.focus(); }
  });
}
for (const button of $("view").children) button.addEventListener("click", () => { view = button.dataset.view === "hour" ? HOUR : MINUTES; if (state) drawCharts(); });
for (const canvas of document.querySelectorAll(".charts canvas")) {
  canvas.addEventListener("pointermove", event => { hover = event.offsetX; if (state) drawCharts(); });
  canvas.addEventListener("pointerleave", () => { hover = null; if (state) drawCharts(); });
}
$("attention").addEventListener("click", () => state?.models && pick({attention: true}));
$("detail").addEventListener("close", () => { if (picked?.linked) location.hash = ""; picked = null; });
addEventListener("hashchange", () => { draw(); scrollTo({top: 0}); });
// Paper gets light colours and every row, also of tables that nobody has scrolled to.
addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); acted = true; if (state) draw(); });
addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); if (state) draw(); });
addEventListener("resize", () => state && draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state && draw());
addEventListener("keydown", event => { if (event.key === "Escape" && !$("detail").open && scope()) location.hash = ""; });
setInterval(drawHealth, 1000);
listen();
