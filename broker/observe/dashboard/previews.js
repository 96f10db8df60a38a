// previews.js - the last pictures that clients sent and what models found on them, where the broker was started with --http-preview. Drawn here, from the answers' JSON.
import {labelOf, paint} from "./draw.js";

const SHOWN = 12, LABELS = 3, CANVAS = 480, PERIOD_MS = 2000;
const cards = new Map(); // by id
let asked = 0;

async function fill(canvas, caption, row) {
  try {
    const [file, answer] = await Promise.all([fetch(`/api/preview/${row.id}`).then(r => r.blob()), fetch(`/api/preview/${row.id}.json`).then(r => r.json())]);
    await paint(canvas, await createImageBitmap(file), answer, CANVAS);
    const found = [...(answer.objects ?? []), ...(answer.classes ?? [])];
    caption.textContent = found.slice(0, LABELS).map(labelOf).join(", ") + (found.length > LABELS ? `, ${found.length - LABELS} more` : "") || (answer.mask ? "a mask" : answer.points?.length ? "points" : "nothing found");
    canvas.setAttribute("aria-label", `A picture for ${row.model}: ${caption.textContent}`);
  } catch {
    caption.textContent = "gone, or no picture that this browser shows";
  }
}

function card(row) {
  const figure = document.createElement("figure"), canvas = document.createElement("canvas"), caption = document.createElement("figcaption"), words = document.createElement("small"), link = document.createElement("a");
  canvas.setAttribute("role", "img");
  link.href = `#/job/${row.job}`;
  link.textContent = `${row.model} v${row.version}`;
  caption.append(link, words);
  figure.append(canvas, caption);
  fill(canvas, words, row);
  return figure;
}

// root: the section; on: the broker keeps pictures; model: only of this one, as {name, version}, or null.
export async function showPreviews(root, on, model) {
  root.hidden = !on;
  if (!on || Date.now() - asked < PERIOD_MS) return;
  asked = Date.now();
  const told = await fetch("/api/preview/").then(r => r.json()).catch(() => ({previews: []}));
  const rows = told.previews.filter(row => !model || (row.model === model.name && row.version === model.version)).slice(0, SHOWN), grid = root.querySelector(".previews");
  for (const id of [...cards.keys()]) if (!rows.some(row => row.id === id)) cards.delete(id);
  for (const row of rows) if (!cards.has(row.id)) cards.set(row.id, card(row));
  const figures = rows.map(row => cards.get(row.id));
  if (figures.length !== grid.children.length || figures.some((figure, i) => figure !== grid.children[i])) grid.replaceChildren(...figures);
  root.querySelector("small").textContent = rows.length ? "users' pictures: shown because of --http-preview" : "none yet: models with \"picture\" and \"answer\" in their config.json show theirs here";
}
