// A worker of a BullMQ pool: onnxruntime-node, one thread. Used by http_peers.py.
import { Worker } from 'bullmq';
import ort from 'onnxruntime-node';

const shape = process.env.PEER_SHAPE.split(',').map(Number);
const session = await ort.InferenceSession.create(process.env.PEER_MODEL, { intraOpNumThreads: 1 });
const connection = { host: '127.0.0.1', port: Number(process.env.PEER_REDIS), maxRetriesPerRequest: null };

async function run(job) {
  const bytes = Buffer.from(job.data.x, 'base64');
  const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  const { logits } = await session.run({ input: new ort.Tensor('float32', values, [1, ...shape]) });
  return Buffer.from(logits.data.buffer, logits.data.byteOffset, logits.data.byteLength).toString('base64');
}

new Worker('infer', run, { connection, concurrency: 8 });
