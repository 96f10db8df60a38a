// try.js - the page /try of penstock-gateway: a picture goes to a model as it is, and the answer is drawn on it here. Nothing is kept anywhere.
import {Client} from "./penstock.mjs";
import {answerOf, labelOf, paint} from "./draw.js";

const $ = id => document.getElementById(id);
const inputs = new Map(); // of models: which input takes files, and whether it has a batch dimension
const JSON_SHOWN = 20000, ROWS_SHOWN = 50, TIME_MS = 60000;
let turn = 0, file = null;

const pool = () => new Client(location.origin, {token: $("token").value || undefined, timeout: TIME_MS});

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").className = bad ? "bad" : "";
}

function fail(error) {
  if (error.status === 401 || error.status === 403) $("token-row").hidden = false;
  say(error.message, true);
}

// ---- models that take pictures say so in their configuration

async function look() {
  const client = pool(), names = new Set((await client.index({})).filter(row => row.state === "READY").map(row => row.name));
  inputs.clear();
  await Promise.all([...names].map(async name => {
    const input = (await client.config(name).catch(() => null))?.parameters?.pictures?.string_value;
    if (input) inputs.set(name, input);
  }));
  const wanted = new URLSearchParams(location.search).get("model") ?? $("model").value;
  $("model").replaceChildren(...[...inputs.keys()].sort().map(name => new Option(name, name, false, name === wanted)));
  if (inputs.size === 0) say("No model of this pool takes pictures: their config.json needs \"picture\".", true);
  else if (!file) say("Drop a picture anywhere on this page: JPEG, PNG, WebP or BMP.");
}

// ---- a picture

function show(answer, outputs) {
  const rows = [...(answer?.objects ?? []), ...(answer?.classes ?? [])].slice(0, ROWS_SHOWN);
  $("found").hidden = rows.length === 0;
  $("found").replaceChildren(...rows.map(row => Object.assign(document.createElement("li"), {textContent: labelOf(row)})));
  const shapes = Object.values(outputs).map(({name, datatype, shape}) => `${name} ${datatype} [${shape.join(", ")}]`).join("\n");
  const text = answer ? JSON.stringify(answer, null, 1) : `Nothing of this answer can be drawn: the model's config.json has no "answer".\n${shapes}`;
  $("json").textContent = text.length > JSON_SHOWN ? text.slice(0, JSON_SHOWN) + "\n..." : text;
  $("whole").hidden = false;
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;

function summary(answer, ms) {
  const parts = [answer?.objects && plural(answer.objects.length, "object"), answer?.classes && plural(answer.classes.length, "class"), answer?.points && plural(answer.points.length, "point"), answer?.mask && "a mask"];
  return `${parts.filter(Boolean).join(", ") || "An answer"} in ${ms.toFixed(0)} ms, with the way there and back.`;
}

async function run() {
  const mine = ++turn, model = $("model").value;
  if (!file || !model) return;
  say(`${file.name} goes to ${model} ...`);
  try {
    const bytes = new Uint8Array(await file.arrayBuffer()), begin = performance.now();
    const {outputs} = await pool().infer(model, {[inputs.get(model)]: {data: [bytes], shape: [1], datatype: "BYTES"}});
    const ms = performance.now() - begin, answer = answerOf(outputs);
    const picture = await createImageBitmap(file).catch(() => null); // upright by Exif
    if (mine !== turn) return; // another picture was dropped since
    if (picture) await paint($("drawing"), picture, answer);
    $("drawing").hidden = !picture;
    show(answer, outputs);
    say(summary(answer, ms) + (picture ? "" : " This browser cannot show the picture."));
  } catch (error) {
    if (mine === turn) fail(error);
  }
}

const take = files => { if (files?.length) { file = files[0]; run(); } };

$("asked").addEventListener("submit", event => event.preventDefault());
$("file").addEventListener("change", () => take($("file").files));
$("model").addEventListener("change", run);
$("token").addEventListener("change", () => look().then(run, fail));
addEventListener("dragover", event => { event.preventDefault(); document.body.classList.add("over"); });
addEventListener("dragleave", event => { if (!event.relatedTarget) document.body.classList.remove("over"); });
addEventListener("drop", event => { event.preventDefault(); document.body.classList.remove("over"); take(event.dataTransfer.files); });
addEventListener("paste", event => take(event.clipboardData?.files));
look().catch(fail);
