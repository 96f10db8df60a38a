/* The first answer of a TensorFlow.js graph model in Node, with a custom bundle: node bundle.js MODEL.json INPUT.bin. beside.sh bundles and times it. */
import * as tf from "@tensorflow/tfjs";
import { loadGraphModel } from "@tensorflow/tfjs-converter/dist/executor/graph_model";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const [, , path, input] = process.argv;
const topology = JSON.parse(readFileSync(path, "utf8"));
const shards = topology.weightsManifest.flatMap((group) => group.paths).map((name) => readFileSync(join(dirname(path), name)));
const joined = Buffer.concat(shards);
const model = await loadGraphModel({
    load: async () => ({
        modelTopology: topology.modelTopology,
        weightSpecs: topology.weightsManifest.flatMap((group) => group.weights),
        weightData: joined.buffer.slice(joined.byteOffset, joined.byteOffset + joined.length),
        signature: topology.signature,
    }),
});
const shape = model.inputs[0].shape.map((dim) => (dim > 0 ? dim : 1));
const bytes = existsSync(input) ? readFileSync(input) : Buffer.alloc(4 * shape.reduce((a, b) => a * b, 1));
const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const answers = [model.execute(tf.tensor(values, shape))].flat();
console.log("answer", (await answers[0].data())[0]);
