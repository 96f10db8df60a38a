// What TensorFlow.js itself answers: node tfjs_answers.mjs JOBS.json; each job = {model, inputs: [{name, dtype, shape, file}], out}. Writes out.json and out.N.bin,
// or {error}. PENSTOCK_TFJS_MODULES: the node_modules folder that has @tensorflow/tfjs.
console.warn = () => {};
import {readFileSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(process.env.PENSTOCK_TFJS_MODULES, 'x.js'));
const tf = require('@tensorflow/tfjs');
const arrays = {float32: Float32Array, int32: Int32Array, bool: Uint8Array};

function artifacts(file) {
  const json = JSON.parse(readFileSync(file)), folder = path.dirname(file);
  const specs = (json.weightsManifest || []).flatMap(group => group.weights);
  const parts = (json.weightsManifest || []).flatMap(group => group.paths.map(p => readFileSync(path.join(folder, p))));
  const all = Buffer.concat(parts);
  return {...json, weightSpecs: specs, weightData: all.buffer.slice(all.byteOffset, all.byteOffset + all.length)};
}

function read(input) {
  const bytes = readFileSync(input.file), kind = arrays[input.dtype];
  const data = new kind(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return tf.tensor(data, input.shape, input.dtype);
}

async function answer(job) {
  const made = artifacts(job.model), graph = made.format === 'graph-model';
  const model = await (graph ? tf.loadGraphModel : tf.loadLayersModel)(tf.io.fromMemory(made));
  const given = Object.fromEntries(job.inputs.map(i => [i.name, read(i)]));
  let names, values;
  if (graph) {
    const outputs = made.signature?.outputs || {};
    names = Object.keys(outputs);
    values = await model.executeAsync(given, names.map(n => outputs[n].name));
  } else {
    values = model.predict(model.inputs.map((x, i) => read(job.inputs[i])));
    names = model.outputs.map(x => x.name.split('/')[0]);
  }
  values = Array.isArray(values) ? values : [values];
  return Promise.all(values.map(async (v, i) => {
    const data = await v.data(), file = `${job.out}.${i}.bin`;
    writeFileSync(file, Buffer.from(arrays[v.dtype].from(data).buffer));
    return {name: names[i], dtype: v.dtype, shape: v.shape, file};
  }));
}

for (const job of JSON.parse(readFileSync(process.argv[2]))) {
  let result;
  try {
    result = {outputs: await answer(job)};
  } catch (problem) {
    result = {error: String(problem && problem.message || problem).slice(0, 300)};
  }
  writeFileSync(`${job.out}.json`, JSON.stringify(result));
}
