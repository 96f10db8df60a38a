// draw.js - what a model found, drawn on its picture in a browser: boxes, points, skeletons, masks, labels, as `penstock submit --draw` draws them. The dashboard of the broker
// and the gateway's page /try embed this file. An answer is the JSON of deploy/ANSWERS.md.

const INKS = [[80, 220, 120], [64, 160, 255], [255, 128, 32], [240, 240, 80], [230, 90, 200], [90, 230, 230], [255, 90, 90], [160, 120, 255], [180, 220, 60], [255, 180, 190], [140, 170, 140], [200, 150, 90]];
const SCORE_DRAWN = 0.3; // points of people below it are guesses
const MESH_POINTS = 64; // more are drawn small, in one colour
const MASK_COVER = 0.45; // how much of the picture a mask hides
const LABELS_MAX = 20;
const OBJECTS_MAX = 1000;

const ink = index => INKS[((Math.trunc(index) % INKS.length) + INKS.length) % INKS.length];
const css = (color, alpha = 1) => `rgba(${color.join(",")},${alpha})`;
const list = value => (Array.isArray(value) ? value : []);

// ---- answers as tensors

const numbers = (tensor, first, count) => Array.from(tensor.data.slice(first, first + count), Number);
const is = (tensor, rank, last) => tensor && tensor.shape.length === rank && tensor.shape[0] >= 1 && tensor.shape[rank - 1] === last;
const pointsOf = (tensor, row, count) => Array.from({length: count}, (_, i) => numbers(tensor, (row * count + i) * 3, 3));

// outputs: {NAME: {shape, data}}. The first row's answer, or null: nothing of it can be drawn.
export function answerOf(outputs) {
  const {answer, boxes, count, scores, classes, corners, points, mesh} = outputs;
  if (typeof answer?.data?.[0] === "string") return JSON.parse(answer.data[0]);
  if (is(boxes, 3, 4) && count) {
    const most = boxes.shape[1], beside = t => t?.shape.length === 2 && t.shape[1] === most;
    return {objects: Array.from({length: Math.min(most, Number(count.data[0]))}, (_, i) => ({
      box: numbers(boxes, 4 * i, 4),
      ...(beside(scores) && {score: Number(scores.data[i])}),
      ...(beside(classes) && {class: Number(classes.data[i])}),
      ...(is(corners, 4, 2) && corners.shape[1] === most && {corners: [0, 2, 4, 6].map(k => numbers(corners, 8 * i + k, 2))}),
      ...(is(points, 4, 3) && points.shape[1] === most && {points: pointsOf(points, i, points.shape[2])}),
      ...(is(mesh, 3, 3) && i < mesh.shape[0] && {mesh: pointsOf(mesh, i, mesh.shape[1])}),
    }))};
  }
  return is(points, 3, 3) ? {points: pointsOf(points, 0, points.shape[1])} : null;
}

// ---- drawing

async function mask(png, width, height) {
  const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(png), c => c.charCodeAt(0))], {type: "image/png"}));
  const canvas = Object.assign(document.createElement("canvas"), {width, height}), g = canvas.getContext("2d", {willReadFrequently: true});
  g.imageSmoothingEnabled = false; // a class between two classes is none
  g.drawImage(bitmap, 0, 0, width, height);
  const pixels = g.getImageData(0, 0, width, height), {data} = pixels;
  for (let i = 0; i < data.length; i += 4) {
    const value = data[i], color = ink(value === 255 ? 0 : value);
    data.set(color, i);
    data[i + 3] = value ? 255 * MASK_COVER : 0;
  }
  g.putImageData(pixels, 0, 0);
  return canvas;
}

function drawPoints(way, points, color) {
  const {g, x, y, line, skeleton} = way, mesh = points.length > MESH_POINTS, radius = line * (mesh ? 0.4 : 1.2);
  const sure = p => p && Number.isFinite(p[0]) && Number.isFinite(p[1]) && !(skeleton && p[2] < SCORE_DRAWN);
  g.lineWidth = line;
  g.strokeStyle = css(color);
  for (const [from, to] of list(skeleton)) {
    if (!sure(points[from]) || !sure(points[to])) continue;
    g.beginPath();
    g.moveTo(points[from][0] * x, points[from][1] * y);
    g.lineTo(points[to][0] * x, points[to][1] * y);
    g.stroke();
  }
  points.forEach((p, i) => {
    if (!sure(p)) return;
    g.fillStyle = css(ink(mesh ? 3 : i));
    g.beginPath();
    g.arc(p[0] * x, p[1] * y, radius, 0, 2 * Math.PI);
    g.fill();
  });
}

export const labelOf = object => [object.label ?? object.class, Number.isFinite(object.score) ? object.score.toFixed(2) : undefined].filter(word => word !== undefined).join(" ");

function drawLabel({g, size}, text, left, top, color) {
  if (!text) return;
  const width = g.measureText(text).width + size / 2, y = Math.max(0, top - size * 1.25), x = Math.max(0, Math.min(left, g.canvas.width - width));
  g.fillStyle = css(color, 0.85);
  g.fillRect(x, y, width, size * 1.25);
  g.fillStyle = "#000";
  g.fillText(text, x + size / 4, y + size);
}

function drawObject(way, object, index) {
  const {g, x, y, line, skeleton} = way, color = ink(skeleton ? index : object.class ?? 0), box = list(object.box);
  const corners = list(object.corners);
  g.lineWidth = line;
  g.strokeStyle = css(color);
  if (corners.length === 4 && corners.flat().every(Number.isFinite)) { // a turned box
    g.beginPath();
    corners.forEach(([cx, cy]) => g.lineTo(cx * x, cy * y));
    g.closePath();
    g.stroke();
  } else if (box.length === 4 && box.every(Number.isFinite)) {
    g.strokeRect(box[0] * x, box[1] * y, (box[2] - box[0]) * x, (box[3] - box[1]) * y);
  }
  drawPoints(way, list(object.points), color);
  drawPoints(way, list(object.mesh), color);
  if (Number.isFinite(box[0]) && Number.isFinite(box[1])) drawLabel(way, labelOf(object), box[0] * x, box[1] * y, color);
}

// Draws the picture (an ImageBitmap) and its answer; the canvas gets the picture's proportions, and at most `most` pixels a side.
export async function paint(canvas, picture, answer, most = 1600) {
  const shrink = Math.min(1, most / Math.max(picture.width, picture.height));
  canvas.width = Math.max(1, Math.round(picture.width * shrink));
  canvas.height = Math.max(1, Math.round(picture.height * shrink));
  const g = canvas.getContext("2d"), side = Math.min(canvas.width, canvas.height), size = Math.max(11, side / 24), png = answer?.mask?.png;
  const way = {g, size, x: canvas.width / (answer?.width || picture.width), y: canvas.height / (answer?.height || picture.height), line: Math.max(1.5, side / 240), skeleton: answer?.skeleton};
  const cover = png ? await mask(png, canvas.width, canvas.height) : null;
  g.drawImage(picture, 0, 0, canvas.width, canvas.height);
  if (!answer) return;
  if (cover) g.drawImage(cover, 0, 0);
  g.font = `600 ${size}px system-ui, sans-serif`;
  list(answer.objects).slice(0, OBJECTS_MAX).forEach((object, i) => drawObject(way, object, i));
  drawPoints(way, list(answer.points), ink(0));
  list(answer.classes).slice(0, LABELS_MAX).forEach((one, i) => drawLabel(way, labelOf(one), 0, (i + 1) * size * 1.35, ink(i)));
}
