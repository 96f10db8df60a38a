// The HTTP side of a BullMQ pool: float32 bytes in, a job with their base64 into Redis, float32 bytes out. Used by http_peers.py.
import http from 'node:http';
import { Queue, QueueEvents } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.env.PEER_REDIS), maxRetriesPerRequest: null };
const queue = new Queue('infer', { connection });
const events = new QueueEvents('infer', { connection });
events.setMaxListeners(0);
await events.waitUntilReady();

http
  .createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', async () => {
      try {
        const job = await queue.add('job', { x: Buffer.concat(parts).toString('base64') }, { removeOnComplete: { count: 1000 }, removeOnFail: true });
        response.end(Buffer.from(await job.waitUntilFinished(events, 60000), 'base64'));
      } catch (error) {
        response.statusCode = 500;
        response.end(String(error));
      }
    });
  })
  .listen(Number(process.env.PEER_PORT), '127.0.0.1');
