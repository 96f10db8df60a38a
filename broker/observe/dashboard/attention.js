// attention.js - what an operator should look at now, in sentences; each says where.
// The noun behind a number: "1 job", "2 jobs".
export const plural = (n, one, many = `${one}s`) => n === 1 ? one : many;

export function attention(state, {time, percent, count, share}) {
  const found = [];
  const say = (tone, text, hash) => found.push({tone, text, hash});
  if (state.draining) say("warn", "The broker is draining: it takes no new jobs.");
  if (!state.workers.length) say("bad", "No worker is connected.");
  if (share > 0.05) say("bad", `${percent(share)} of the jobs of the last 10 s ended with an error: see Jobs, Errors.`);
  for (const m of state.models) {
    const hash = `#/model/${encodeURIComponent(m.name)}/${m.version}`;
    if (m.ready === 0 && m.queued > 0) say("bad", `${count(m.queued)} ${plural(m.queued, "job")} of ${m.name} v${m.version} ${plural(m.queued, "waits", "wait")} and no worker is ready for it.`, hash);
    else if (m.ready === 0) say("warn", `No worker is ready for ${m.name} v${m.version}.`, hash);
    else if (m.ready < m.offers) say("warn", `${m.offers - m.ready} of ${m.offers} workers ${plural(m.offers - m.ready, "is", "are")} not ready for ${m.name} v${m.version}.`, hash);
  }
  for (const s of state.shadows ?? []) {
    const hash = `#/model/${encodeURIComponent(s.model)}/${s.version}`;
    if (s.went_back) say("bad", `A label of ${s.model} has left v${s.version} by itself: the log says why (label_went_back).`, hash);
  }
  for (const f of state.failures ?? []) {
    const what = f.version ? `${f.model} v${f.version}` : f.model;
    if (f.serving) say("warn", `Worker ${f.worker} refuses a change of ${what}; what was loaded before serves on: ${f.error}`);
    else say("bad", `Worker ${f.worker} cannot load ${what}: ${f.error}`);
  }
  for (const w of state.workers) {
    if (w.state === "suspect") say("bad", `Worker ${w.name} has been silent for ${time(w.last_seen_us)}.`);
    if (w.memory_bytes && w.memory_used_bytes > 0.9 * w.memory_bytes) say("warn", `Worker ${w.name} uses ${percent(w.memory_used_bytes / w.memory_bytes)} of the memory it may have.`);
    if (w.oldest_running_us > 30e6) say("warn", `Worker ${w.name} has had one run going for ${time(w.oldest_running_us)}.`);
  }
  if (state.cache.state !== "ok" && state.cache.kind !== "none") say("bad", `The cache is left alone: ${state.cache.state}.`);
  return found;
}
