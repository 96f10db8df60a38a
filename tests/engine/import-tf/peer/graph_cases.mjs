// Writes cases/graph.jsonl: small graph models with the answers of the real @tensorflow/tfjs (cpu backend).
//   PENSTOCK_TFJS_MODULES=<node_modules with @tensorflow/tfjs 4.22.0> node graph_cases.mjs ../cases/graph.jsonl
import {tf, Tensor, seed, random, f, i, b, c, ic, is, fs, record, toTensor, fromTensor, packed, keep, save} from './cases.mjs';
import {matrix} from './graph_math.mjs';
import {images} from './graph_image.mjs';
import {moves} from './graph_move.mjs';
import {flows} from './graph_flow.mjs';
import {words, draws} from './graph_text.mjs';

const TYPES = {float32: 'DT_FLOAT', int32: 'DT_INT32', bool: 'DT_BOOL', string: 'DT_STRING'};
const base64 = text => Buffer.from(text).toString('base64');
export const at = {
  type: t => ({type: t}), i: v => ({i: String(v)}), f: v => ({f: v}), b: v => ({b: v}), s: v => ({s: base64(v)}),
  ints: (...v) => ({list: {i: v.map(String)}}), texts: (...v) => ({list: {s: v.map(base64)}}), fn: n => ({func: {name: n}}),
  types: (...v) => ({list: {type: v}}), shape: (...d) => ({shape: {dim: d.map(x => ({size: String(x)}))}}),
};
const placeholder = (name, t) => ({
  name, op: 'Placeholder', attr: {dtype: {type: TYPES[t.dtype]}, shape: {shape: {dim: t.shape.map(d => ({size: String(d)}))}}},
});

// nodes: raw nodes; tensors: {name: Tensor} become Const or Placeholder; outs: references.
export async function graph(name, tensors, nodes, outs, extra = {}) {
  const weights = [], feeds = {}, all = [], ins = [];
  for (const [key, t] of Object.entries(tensors)) {
    if (t.constant) {
      all.push({name: key, op: 'Const', attr: {dtype: {type: TYPES[t.dtype]}}});
      weights.push([key, t]);
    } else {
      all.push(placeholder(key, t));
      feeds[key] = toTensor(t);
      ins.push(record(key, t));
    }
  }
  const signature = {inputs: {}, outputs: {}};
  for (const [key, t] of Object.entries(tensors))
    if (!t.constant) signature.inputs[key] = {name: `${key}:0`, dtype: TYPES[t.dtype]};
  outs.forEach((reference, k) => { signature.outputs[`out${k}`] = {name: reference}; });
  const topology = {node: all.concat(nodes), ...(extra.functions ? {library: {function: extra.functions}} : {})};
  const {specs, data} = packed((extra.weights || []).concat(weights));
  try {
    const model = await tf.loadGraphModel(tf.io.fromMemory({modelTopology: {...topology, versions: {producer: 1}}, weightSpecs: specs, weightData: data}));
    let results = extra.answer; // where the peer itself falls
    if (!results) {
      const got = await model.executeAsync(feeds, outs);
      results = [];
      for (const t of Array.isArray(got) ? got : [got]) results.push(await fromTensor(t));
    }
    keep({n: name, model: {modelTopology: topology, signature}, w: (extra.weights || []).concat(weights).map(([k, t]) => record(k, t)),
      in: ins, out: results.map((t, k) => record(`out${k}`, t)), ...(extra.keep || {})});
  } catch (error) {
    console.error(`${name}: the peer refuses: ${error.message}`);
  }
}

// One operator: inputs in order, attributes, how many outputs.
export async function op(kind, inputs, attr = {}, {outs = 1, name = '', ...extra} = {}) {
  const tensors = {};
  inputs.forEach((t, k) => { tensors[`${t.constant ? 'c' : 'x'}${k}`] = t; });
  const first = inputs.find(t => t.dtype !== 'string') || inputs[0];
  const node = {name: 'op', op: kind, input: Object.keys(tensors), attr: {...(first ? {T: {type: TYPES[first.dtype]}} : {}), ...attr}};
  await graph(name ? `${kind} ${name}` : kind, tensors, [node], Array.from({length: outs}, (_, k) => k ? `op:${k}` : 'op'), extra);
}

// Weights stored narrow: the manifest says how to widen them.
async function stored() {
  const halves = [0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x8000]; // 1, -2, a third, the smallest, the largest, -0
  for (const [dtype, typed, values, how] of [['uint8', Uint8Array, [0, 1, 7, 128, 200, 255], {scale: 0.013, min: -1.5}],
    ['uint16', Uint16Array, [0, 1, 300, 40000, 65000, 65535], {scale: 0.0001, min: -3}], ['float16', Uint16Array, halves, {}]]) {
    const quantization = {dtype, ...how, original_dtype: 'float32'};
    const topology = {node: [placeholder('x', f([6])), {name: 'w', op: 'Const', attr: {dtype: {type: 'DT_FLOAT'}}},
      {name: 'y', op: 'Mul', input: ['x', 'w'], attr: {T: {type: 'DT_FLOAT'}}}]}, x = f([6], [1, 1, 1, 1, 1, 1]);
    const bytes = typed.from(values).buffer, specs = [{name: 'w', shape: [6], dtype: 'float32', quantization}];
    const model = await tf.loadGraphModel(tf.io.fromMemory({modelTopology: {...topology, versions: {producer: 1}}, weightSpecs: specs, weightData: bytes}));
    const y = await fromTensor(model.execute({x: toTensor(x)}, 'y'));
    const signature = {inputs: {x: {name: 'x:0', dtype: 'DT_FLOAT'}}, outputs: {out0: {name: 'y'}}};
    keep({n: `weights ${dtype}`, model: {modelTopology: topology, signature}, w: [['w', dtype === 'uint8' ? 'uint8' : 'uint16', [6], values, quantization]],
      in: [record('x', x)], out: [record('out0', y)], tol: [0, 1e-6]});
  }
}

seed(7);
const kit = {tf, Tensor, random, f, i, b, c, ic, is, fs, at, op, graph, TYPES};
await tf.setBackend('cpu');
await matrix(kit);
await images(kit);
await moves(kit);
await flows(kit);
await stored();
await words(kit);
await draws(kit);
save(process.argv[2]);
