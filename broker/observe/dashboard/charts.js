// charts.js - lines over time on a canvas, drawn anew each second: nothing is kept but the values.
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A canvas whose pixels fit its box; [context, width, height] in CSS pixels.
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

// 1, 2, 4, 6 or 8 times a power of ten, not below x: its quarters are short numbers.
export function ceiling(x) {
  if (!(x > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 4, 6, 8, 10].map(n => n * power).find(n => n >= x * 0.9999);
}

function line(context, values, x, y) {
  let drawing = false;
  context.beginPath();
  values.forEach((value, i) => {
    if (value === null || value === undefined) { drawing = false; return; }
    if (drawing) context.lineTo(x(i), y(value)); else context.moveTo(x(i), y(value));
    drawing = true;
  });
}

// [first, last] of each stretch without a null: nothing is filled where nothing is known.
function stretches(values) {
  const out = [];
  values.forEach((v, i) => { if (v === null || v === undefined) return; if (out.length && out.at(-1)[1] === i - 1) out.at(-1)[1] = i; else out.push([i, i]); });
  return out;
}

export function spark(canvas, values, color) {
  const [context, width, height] = prepare(canvas);
  const max = Math.max(...values.filter(v => v !== null), 0) || 1, count = Math.max(values.length - 1, 1);
  const x = i => width * i / count, y = v => height - 2 - (height - 4) * v / max;
  context.strokeStyle = css(color);
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  line(context, values, x, y);
  context.stroke();
  context.globalAlpha = 0.12;
  context.fillStyle = css(color);
  for (const [first, last] of stretches(values)) {
    line(context, values.slice(first, last + 1), i => x(i + first), y);
    context.lineTo(x(last), height);
    context.lineTo(x(first), height);
    context.fill();
  }
  context.globalAlpha = 1;
}

const LEFT = 52, BOTTOM = 18, TOP = 6, RIGHT = 8;

function grid(context, width, height, max, format, seconds) {
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = css("--quiet");
  context.strokeStyle = css("--line");
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let i = 0; i <= 4; i++) {
    const y = Math.round(TOP + (height - TOP - BOTTOM) * (1 - i / 4)) + 0.5;
    context.beginPath();
    context.moveTo(LEFT, y);
    context.lineTo(width - RIGHT, y);
    context.stroke();
    context.fillText(format(max * i / 4).replace(/\.0+(?= |$)/, "").replace(/(\.\d*[1-9])0+(?= |$)/, "$1"), LEFT - 7, y); // "8.00 ms" is 8 ms here
  }
  context.textBaseline = "alphabetic";
  const step = [[20, 5], [60, 15], [150, 30], [300, 60], [600, 120], [1800, 300]].find(([upTo]) => seconds <= upTo)?.[1] ?? 600;
  for (let t = 0; t <= seconds; t += width < 420 ? 2 * step : step) {
    const x = width - RIGHT - (width - LEFT - RIGHT) * t / seconds;
    context.textAlign = t === 0 ? "right" : t === seconds ? "left" : "center";
    context.fillText(t === 0 ? "now" : t % 60 || seconds <= 60 ? `-${t} s` : `-${t / 60} min`, x, height - 3);
  }
}

/*
 * lines: [{values, color, fill}], each of as many values, evenly over `seconds`, oldest first, null where nothing was known. stacked: each lies on the one before.
 * hover: CSS pixels from the left, or null; returns the index under it.
 */
export function chart(canvas, {lines, seconds, format, stacked, hover, floor}) {
  const [context, width, height] = prepare(canvas);
  const shown = lines.map(l => ({...l, top: [...l.values]}));
  if (stacked)
    for (let k = 1; k < shown.length; k++)
      shown[k].top = shown[k].values.map((v, i) => v === null ? null : v + (shown[k - 1].top[i] || 0));
  const max = ceiling(Math.max(floor || 0, ...shown.flatMap(l => l.top.filter(v => v !== null))));
  const steps = shown[0].values.length, x = i => LEFT + (width - LEFT - RIGHT) * i / (steps - 1);
  const y = v => TOP + (height - TOP - BOTTOM) * (1 - v / max);
  grid(context, width, height, max, format, seconds);
  context.lineJoin = "round";
  for (let k = shown.length - 1; k >= 0; k--) {
    const {top, color, fill} = shown[k];
    context.strokeStyle = context.fillStyle = css(color);
    context.lineWidth = 1.75;
    if (fill || stacked) {
      for (const [first, last] of stretches(top)) {
        line(context, top.slice(first, last + 1), i => x(i + first), y);
        for (let i = last; i >= first; i--) context.lineTo(x(i), y(stacked && k ? shown[k - 1].top[i] || 0 : 0));
        context.globalAlpha = stacked ? 0.75 : 0.12;
        context.fill();
        context.globalAlpha = 1;
      }
    }
    line(context, top, x, y);
    context.stroke();
  }
  if (hover === null || hover === undefined) return null;
  const index = Math.max(0, Math.min(steps - 1, Math.round((hover - LEFT) / (width - LEFT - RIGHT) * (steps - 1))));
  context.strokeStyle = css("--quiet");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(Math.round(x(index)) + 0.5, TOP);
  context.lineTo(Math.round(x(index)) + 0.5, height - BOTTOM);
  context.stroke();
  return index;
}
