// trace.js - one job's life as a waterfall: asked of the broker when somebody opens a job, drawn as rows of bars.
const LINES_MAX = 300;

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

const depth = (spans, span) => { let n = 0; for (let s = span; s.parent >= 0 && n < 8; s = spans[s.parent]) n++; return n; };
const colors = {client: "a", broker: "b", worker: "d"};

function row(spans, span, whole, time) {
  const line = make("li", "wf-row"), name = make("span", "wf-name", span.name), bar = make("span", "wf-bar"), part = make("i", "c-" + colors[span.side]);
  name.style.paddingLeft = 12 * depth(spans, span) + "px";
  if (span.detail) name.append(make("small", "", " " + span.detail));
  name.title = `${span.name} ${span.detail} (${span.side})`;
  part.style.left = 100 * (span.start_us - whole.start_us) / Math.max(1, whole.us) + "%";
  part.style.width = 100 * span.us / Math.max(1, whole.us) + "%";
  bar.append(part);
  line.append(name, bar, make("b", "", time(span.us)));
  return line;
}

function link(job, form, text) {
  const anchor = make("a", "chip", text);
  anchor.href = `/api/trace/${job}.${form}`;
  anchor.download = `${job}.${form}.json`;
  return anchor;
}

// Fills `root`; what was kept of the job, or a sentence why nothing was.
export async function showTrace(root, job, time) {
  try {
    const answer = await fetch(`/api/trace/${job}`), body = await answer.json();
    if (!answer.ok) throw new Error(body.error);
    const trace = body.traces[0], spans = trace.spans.slice(0, LINES_MAX), list = make("ol", "waterfall"), legend = make("p", "legend"), tools = make("p", "tools");
    list.append(...spans.map(span => row(spans, span, spans[0], time)));
    for (const [side, color] of Object.entries(colors)) {
      const item = make("span");
      item.append(make("i", "c-" + color), side);
      legend.append(item);
    }
    tools.append(link(job, "chrome", "Perfetto"), link(job, "otlp", "OpenTelemetry"), link(job, "json", "JSON"), make("small", "quiet", `trace ${trace.trace_id} · admitted ${new Date(trace.admitted_unix_us / 1000).toISOString()}`));
    root.replaceChildren(legend, list, tools);
  } catch (error) {
    root.replaceChildren(make("p", "quiet", `No spans: ${error.message}`));
  }
}
