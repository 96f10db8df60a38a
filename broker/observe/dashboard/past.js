// past.js - the hour before this page was opened: the broker's steps of five seconds, and one line made of them and of the seconds since.
import {SECONDS, modelKey} from "./history.js";

export const HOUR = {steps: 720, step: 5};
export const MINUTES = {steps: SECONDS, step: 1};
const SOON_MS = 6000, AGAIN_MS = 60000; // once more for the step under way when the page came; what is newer the page knows itself

// [{at_us, span_ms, done, ...}], oldest first, of the pool or of one model; kept by what they are of.
export class Past {
  constructor(changed) {
    this.tracks = new Map();
    this.changed = changed;
  }

  points(key) { return this.tracks.get(key)?.points ?? []; }

  // Asks the broker for the track unless it is here and new enough. scope: {name, version}, or null for the pool.
  async want(scope, broker) {
    const key = scope ? "m" + modelKey(scope) : "pool", known = this.tracks.get(key);
    if (known && known.broker === broker && Date.now() - known.asked < (known.times > 1 ? AGAIN_MS : SOON_MS)) return;
    const times = known?.broker === broker ? known.times + 1 : 1;
    this.tracks.set(key, {points: known?.broker === broker ? known.points : [], asked: Date.now(), broker, times});
    if (this.tracks.size > 8) this.tracks.delete(this.tracks.keys().next().value);
    try {
      const answer = await fetch("/api/history/" + (scope ? `${encodeURIComponent(scope.name)}/versions/${scope.version}` : ""));
      if (!answer.ok) return;
      const {columns, points} = await answer.json();
      this.tracks.set(key, {points: points.map(row => Object.fromEntries(columns.map((c, i) => [c, row[i]]))), asked: Date.now(), broker, times});
      this.changed();
    } catch { /* the page goes on with what it has; asked again in a minute */ }
  }

  // How many seconds before now are known.
  seconds(key, nowUs) {
    const first = this.points(key).find(p => p.at_us <= nowUs);
    return first ? (nowUs - first.at_us) / 1e6 + first.span_ms / 1e3 : 0;
  }

  /*
   * One number per step of `view`, oldest first. live: one per second of this page (History.line), of which the last `known` are known; value: of a point.
   * The newest steps are those of the page: all of its seconds, or, of an hour, those behind the last point. The broker's step under way, which nobody has
   * told yet, is drawn as the one before it until it is asked for again.
   */
  line(key, view, nowUs, live, known, value) {
    const points = this.points(key), last = points.at(-1)?.at_us ?? 0, out = Array(view.steps).fill(null);
    for (let i = view.steps - 1, k = points.length - 1; i >= 0; i--) {
      const ago = (view.steps - 1 - i) * view.step, at = nowUs - 1e6 * ago;
      if (ago < known && (view.step === 1 || at > last)) { out[i] = live[SECONDS - 1 - ago] ?? null; continue; }
      if (last && at > last) { out[i] = at - last <= HOUR.step * 1e6 ? value(points.at(-1)) : null; continue; }
      while (k > 0 && points[k].at_us - 1e3 * points[k].span_ms >= at) k--;
      if (k >= 0 && at <= points[k].at_us && at > points[k].at_us - 1e3 * points[k].span_ms) out[i] = value(points[k]);
    }
    return out;
  }
}
