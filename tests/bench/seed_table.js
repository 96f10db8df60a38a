// seed_table.js FOLDER BACKEND MODEL_JSON SHAPES SECONDS - one model in TensorFlow.js, in this process alone; prints one JSON object.
//
// FOLDER holds node_modules with @tensorflow/tfjs and @tensorflow/tfjs-backend-wasm. SHAPES is a JSON object {input: shape}. Files are read from disk: no server.
'use strict';
const fs = require('fs');
const path = require('path');
const [folder, backend, file, shapesText, secondsText] = process.argv.slice(2);
const from = (name) => require(require.resolve(name, {paths: [folder]}));

function handler(file) {
  return {
    load: async () => {
      const json = JSON.parse(fs.readFileSync(file, 'utf8'));
      const parts = json.weightsManifest.flatMap((group) => group.paths.map((p) => fs.readFileSync(path.join(path.dirname(file), p))));
      const all = Buffer.concat(parts);
      return {
        modelTopology: json.modelTopology,
        weightSpecs: json.weightsManifest.flatMap((group) => group.weights),
        weightData: all.buffer.slice(all.byteOffset, all.byteOffset + all.byteLength),
        format: json.format, signature: json.signature, userDefinedMetadata: json.userDefinedMetadata,
      };
    },
  };
}

// The same values for every backend; numbers in 0..1.
function values(count) {
  const data = new Float32Array(count);
  let state = 42;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    data[i] = state / 4294967296;
  }
  return data;
}

async function main() {
  const tf = from('@tensorflow/tfjs');
  if (backend === 'wasm') {
    const wasm = from('@tensorflow/tfjs-backend-wasm');
    wasm.setWasmPaths(path.join(folder, 'node_modules/@tensorflow/tfjs-backend-wasm/dist') + '/');
    if (wasm.setThreadsCount) wasm.setThreadsCount(1);
  }
  await tf.setBackend(backend);
  await tf.ready();
  if (tf.getBackend() !== backend) throw new Error(`TensorFlow.js runs on ${tf.getBackend()}, not on ${backend}`);
  const shapes = JSON.parse(shapesText);
  const begin = performance.now();
  const layers = JSON.parse(fs.readFileSync(file, 'utf8')).modelTopology.node === undefined;
  const model = layers ? await tf.loadLayersModel(handler(file)) : await tf.loadGraphModel(handler(file));
  const load_ms = performance.now() - begin;
  const inputs = {};
  for (const [name, shape] of Object.entries(shapes)) {
    inputs[name] = tf.tensor(values(shape.reduce((a, b) => a * b, 1)), shape);
  }
  const list = Object.values(inputs);
  const once = async () => {
    const start = performance.now();
    // The faster of its two ways: executeAsync is for control flow, which none of the table's models has.
    const result = layers ? model.predict(list.length === 1 ? list[0] : list) : model.execute(inputs);
    const outputs = Array.isArray(result) ? result : [result];
    for (const t of outputs) {
      await t.data();
      t.dispose();
    }
    return performance.now() - start;
  };
  const first_run_ms = await once();
  await once();
  const times = [];
  const until = performance.now() + 1000 * Number(secondsText);
  while (performance.now() < until || times.length < 3) times.push(await once());
  times.sort((a, b) => a - b);
  console.log(JSON.stringify({
    load_ms, first_run_ms, median_ms: times[Math.floor(times.length / 2)], min_ms: times[0], runs: times.length,
    peak_rss_bytes: process.resourceUsage().maxRSS * 1024, library: `TensorFlow.js ${tf.version.tfjs} ${backend}`,
    simd: backend === 'wasm' ? await tf.env().getAsync('WASM_HAS_SIMD_SUPPORT') : undefined,
  }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
