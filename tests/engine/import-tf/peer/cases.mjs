// What both case writers share: tensors as [name, dtype, shape, values], seeded numbers, and one line of JSON per case.
console.warn = () => {}; // the peer advises on every run
import {createRequire} from 'node:module';
import {writeFileSync} from 'node:fs';
import path from 'node:path';

const modules = process.env.PENSTOCK_TFJS_MODULES || path.resolve('node_modules');
const require = createRequire(path.join(modules, 'x.js'));
export const tf = require('@tensorflow/tfjs');

export class Tensor {
  constructor(dtype, shape, values, constant) {
    Object.assign(this, {dtype, shape, values, constant});
  }
}
const size = shape => shape.reduce((a, b) => a * b, 1);

let state = 1;
export const seed = value => { state = value >>> 0 || 1; };
// Multiples of 1/64 in [low, high): short to write, exact in binary.
export function random(shape, low = -2, high = 2) {
  const values = [];
  for (let i = 0; i < size(shape); i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values.push(Math.floor((low + (high - low) * (state / 4294967296)) * 64) / 64);
  }
  return values;
}
export const f = (shape, values) => new Tensor('float32', shape, values || random(shape));
export const i = (shape, values) => new Tensor('int32', shape, values);
export const b = (shape, values) => new Tensor('bool', shape, values);
// A constant of the model instead of an input.
export const c = t => new Tensor(t.dtype, t.shape, t.values, true);
export const ic = (...values) => c(i([values.length], values));
export const is = value => c(i([], [value]));
export const fs = value => c(f([], [value]));

const written = (value, dtype) =>
  dtype === 'string' ? value : Number.isNaN(value) ? 'nan' : value === Infinity ? 'inf' : value === -Infinity ? '-inf'
    : dtype === 'float32' ? Number(value.toPrecision(8)) : Number(value);
export const record = (name, t) => [name, t.dtype, t.shape, t.values.map(v => written(v, t.dtype))];

export function toTensor(t) {
  return t.dtype === 'string' ? tf.tensor(t.values, t.shape, 'string') : tf.tensor(t.values, t.shape, t.dtype);
}
export async function fromTensor(t) {
  return new Tensor(t.dtype, t.shape, Array.from(await t.data()));
}

// The weights laid end to end, as the shards have them.
export function packed(weights) {
  const specs = [], parts = [];
  for (const [name, t] of weights) {
    specs.push({name, shape: t.shape, dtype: t.dtype});
    if (t.dtype === 'string') {
      for (const text of t.values) {
        const bytes = Buffer.from(text), length = Buffer.alloc(4);
        length.writeUInt32LE(bytes.length);
        parts.push(length, bytes);
      }
    } else {
      const typed = t.dtype === 'float32' ? Float32Array : t.dtype === 'int32' ? Int32Array : Uint8Array;
      parts.push(Buffer.from(typed.from(t.values).buffer));
    }
  }
  const all = Buffer.concat(parts);
  return {specs, data: all.buffer.slice(all.byteOffset, all.byteOffset + all.length)};
}

const lines = [];
export const keep = line => lines.push(JSON.stringify(line));
export function save(file) {
  writeFileSync(file, lines.join('\n') + '\n');
  console.log(`${file}: ${lines.length} cases, ${lines.join('\n').length} bytes`);
}
