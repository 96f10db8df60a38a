// history.js - five minutes of what happened, second by second, made from the broker's cumulative counts.
export const SECONDS = 300;
const WINDOW = 10; // seconds that tables speak of
export const STAGES = ["queue", "transfer", "decode", "compute", "total"];

const plus = (a, b) => { for (let i = 0; i < b.length; i++) a[i] = (a[i] || 0) + b[i]; return a; };
const minus = (a, b) => a.map((v, i) => v - (b[i] || 0));
export const sum = a => a.reduce((s, v) => s + (v || 0), 0);

// The time that a share q was not longer than, in proportion between the bounds of its bucket; null when nothing was counted.
export function quantile(counts, bounds, q) {
  const rank = q * sum(counts);
  if (!(rank > 0)) return null;
  let seen = 0;
  for (let i = 0; i < counts.length && i < bounds.length; i++) {
    if (counts[i] > 0 && seen + counts[i] >= rank) {
      const low = i ? bounds[i - 1] : 0;
      return low + (bounds[i] - low) * (rank - seen) / counts[i];
    }
    seen += counts[i] || 0;
  }
  return bounds[bounds.length - 1];
}

// The mean of counts, each taken for the middle of its bucket.
export function mean(counts, bounds) {
  const count = sum(counts);
  return count ? sum(counts.map((n, i) => n * ((i ? bounds[i - 1] : 0) + bounds[Math.min(i, bounds.length - 1)]) / 2)) / count : null;
}

export const modelKey = row => `${row.model ?? row.name}\n${row.version}`;
export const seriesKey = row => `${modelKey(row)}\n${row.backend}\n${row.precision}`;
export const workerKey = row => row.uuid;

// What each source counts: names of numbers that only grow.
const MODEL = ["computed", "coalesced", "cached", "misses", "failed", "rejected", "requeued"];
const SERIES = ["busy_us", "measured", "batch_jobs"], SERIES_LISTS = [...STAGES, "error", "batches", "closes"];

export class History {
  constructor() { this.reset(); }

  reset() {
    this.last = null;
    this.rows = new Map(); // key -> [delta per second, newest last]
    this.clock = []; // seconds that each step took
    this.sums = new Map(); // what `added` has added up since the last event
  }

  static delta(now, before, names, lists) {
    const d = {};
    for (const name of names) d[name] = now[name] - (before?.[name] ?? 0);
    for (const name of lists) d[name] = minus(now[name], before?.[name] ?? []);
    return d;
  }

  push(key, delta) {
    let row = this.rows.get(key);
    if (!row) this.rows.set(key, row = Array(this.clock.length - 1).fill(null));
    row.push(delta);
    if (row.length > SECONDS) row.shift();
  }

  take(state) {
    const before = this.last;
    this.last = state;
    this.sums.clear();
    if (!before || before.broker !== state.broker || state.now_us <= before.now_us) {
      if (before && before.broker !== state.broker) { this.reset(); this.last = state; }
      return false;
    }
    this.clock.push((state.now_us - before.now_us) / 1e6);
    if (this.clock.length > SECONDS) this.clock.shift();
    const index = (rows, key) => new Map(rows.map(r => [key(r), r]));
    const models = index(before.models, modelKey), series = index(before.series, seriesKey), workers = index(before.workers, workerKey);
    this.push("pool", {...History.delta(state, before, ["done", "failed", "rejected"], []), queued: state.queued, running: state.running,
                       hits: state.cache.hits - before.cache.hits, misses: state.cache.misses - before.cache.misses});
    for (const m of state.models)
      this.push("m" + modelKey(m), {...History.delta(m, models.get(modelKey(m)), MODEL, []), queued: m.queued, running: m.running});
    for (const s of state.series) this.push("s" + seriesKey(s), History.delta(s, series.get(seriesKey(s)), SERIES, SERIES_LISTS));
    for (const w of state.workers) this.push("w" + w.uuid, History.delta(w, workers.get(w.uuid) ?? w, ["done", "failed"], []));
    for (const [key, row] of this.rows) if (row.length < this.clock.length) this.push(key, null);
    for (const [key, row] of this.rows) if (row.every(d => d === null)) this.rows.delete(key);
    return true;
  }

  // One number per second for all SECONDS, null where nothing is known yet.
  line(key, value) {
    const row = this.rows.get(key) ?? [], known = row.map((d, i) => d ? value(d, this.clock[i]) : null);
    return [...Array(SECONDS - known.length).fill(null), ...known];
  }

  // Sums over the last seconds.
  recent(key, seconds = WINDOW) {
    const row = (this.rows.get(key) ?? []).slice(-seconds).filter(Boolean), out = {};
    for (const d of row)
      for (const [name, v] of Object.entries(d)) out[name] = Array.isArray(v) ? plus(out[name] ?? [], v) : (out[name] ?? 0) + v;
    out.seconds = sum(this.clock.slice(-seconds)) || 1;
    return out;
  }

  // One stage of some series added up, second by second; several lines of one drawing share it.
  added(keys, stage) {
    const name = stage + keys.join("|"), known = this.sums.get(name);
    if (known) return known;
    const length = this.clock.length, rows = keys.map(k => this.rows.get("s" + k) ?? []);
    const out = Array.from({length}, (_, i) => rows.reduce((a, row) => { const d = row[i - length + row.length]; return d ? plus(a, d[stage]) : a; }, []));
    this.sums.set(name, out);
    return out;
  }

  // A quantile or mean of the `width` seconds before each second.
  stageLine(keys, stage, value, width = 3) {
    const counts = this.added(keys, stage), out = Array(SECONDS - counts.length).fill(null);
    for (let i = 0; i < counts.length; i++) out.push(value(counts.slice(Math.max(0, i - width + 1), i + 1).reduce(plus, [])));
    return out;
  }
}
