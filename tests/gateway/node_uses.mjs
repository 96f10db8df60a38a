// node_uses.mjs - penstock.mjs before real pools: node node_uses.mjs MODULE URL SLOW_URL TOKEN_URL TOKEN. Prints what fails, then the counts.
const [module, url, slowUrl, tokenUrl, token] = process.argv.slice(2);
const { Client, PenstockError } = await import(module);

let passed = 0;
let failed = 0;
function check(good, what, seen) {
  good ? passed++ : failed++;
  if (!good) console.log('FAILED:', what, seen ?? '');
}

/** The error of a promise; anything else is a failure. */
async function refused(promise, status, words) {
  const error = await promise.then(() => undefined, (e) => e);
  check(error instanceof PenstockError && error.status === status && error.message.includes(words), `${status}: ${words}`, error);
  return error;
}

const same = (a, b) => a.length === b.length && Array.from(a).every((one, i) => Object.is(one, Array.from(b)[i]));
const pool = new Client(url + '/');

async function whatIsThere() {
  check((await pool.live()) && (await pool.ready()) && (await pool.ready('sums', { version: 1 })), 'it is ready');
  check(!(await pool.ready('nobody')) && !(await pool.ready('sums', { version: 9 })), 'what is not there is not ready');
  check((await pool.server()).name === 'penstock', 'the server');
  const about = await pool.metadata('batched');
  check(about.inputs[0].datatype === 'FP32' && same(about.inputs[0].shape, [-1, 4]), 'metadata', about);
  check((await pool.config('batched')).max_batch_size === 8, 'config');
  check((await pool.unload('same_int8')) === null && !(await pool.ready('same_int8')), 'unloading');
  check((await pool.load('same_int8')) === null && (await pool.ready('same_int8')), 'loading');
  check((await pool.index()).some((row) => row.name === 'chain' && row.state === 'READY'), 'the index');
  check((await pool.statistics('batched')).model_stats[0].name === 'batched', 'statistics');
  await refused(pool.metadata('nobody'), 404, 'nobody');
}

const VALUES = [
  ['UINT8', new Uint8Array([0, 255])], ['INT8', new Int8Array([-128, 127])], ['UINT16', new Uint16Array([1, 65535])], ['INT16', new Int16Array([-32768, 5])],
  ['UINT32', new Uint32Array([2, 4294967295])], ['INT32', new Int32Array([-2147483648, 6])], ['UINT64', new BigUint64Array([3n, 18446744073709551615n])],
  ['INT64', new BigInt64Array([-9223372036854775808n, 7n])], ['FP32', new Float32Array([0.3, NaN])], ['FP64', new Float64Array([0.1, 1e-300])],
];

async function types() {
  for (const [datatype, data] of VALUES) {
    const { y } = (await pool.infer(`same_${datatype.toLowerCase()}`, { x: { data, shape: [1, 2] } })).outputs;
    check(y.datatype === datatype && y.data.constructor === data.constructor && same(y.data, data) && same(y.shape, [1, 2]), datatype, y);
  }
  for (const datatype of ['FP16', 'BF16']) {
    const { y } = (await pool.infer(`same_${datatype.toLowerCase()}`, { x: { data: new Uint16Array([0x3c00, 0x4000]), shape: [1, 2], datatype } })).outputs;
    check(y.datatype === datatype && same(y.data, [0x3c00, 0x4000]), datatype, y);
  }
  const flags = (await pool.infer('same_bool', { x: { data: [[true, false]], shape: [1, 2] } })).outputs.y;
  check(flags.datatype === 'BOOL' && same(flags.data, [1, 0]), 'booleans', flags);
  const words = ['wörld', '', 'two'];
  check(same((await pool.infer('same_bytes', { x: { data: words, shape: [1, 3] } })).outputs.y.data, words), 'texts');
  const raw = (await pool.infer('same_bytes', { x: { data: [new Uint8Array([255, 0])], shape: [1, 1] } }, { rawTexts: true })).outputs.y.data[0];
  check(same(raw, [255, 0]), 'texts that are none', raw);
  const plain = [['INT64', [[1, -2n]], [1n, -2n]], ['UINT64', [18446744073709551615n, 0], [18446744073709551615n, 0n]], ['INT8', [-128, 127], [-128, 127]], ['FP32', [NaN, -Infinity], [NaN, -Infinity]],
    ['BOOL', [1, false], [1, 0]]];
  for (const [datatype, data, wish] of plain) {
    const { y } = (await pool.infer(`same_${datatype.toLowerCase()}`, { x: { data, shape: [1, 2], datatype } })).outputs;
    check(same(y.data, wish), `numbers as ${datatype}`, y);
  }
  check(same((await pool.infer('same_uint8', { x: { data: Buffer.from('ab'), shape: [1, 2] } })).outputs.y.data, [97, 98]), 'a Buffer');
  check(same((await pool.infer('same_fp32', { x: { data: [2, 3], shape: [1, 2], datatype: 'FP32' } }, { timeout: Infinity })).outputs.y.data, [2, 3]), 'an endless time');
  check(same((await pool.infer('same_fp32', { x: { data: [2, 4], shape: [1, 2], datatype: 'FP32' } }, { timeout: 2 ** 32 })).outputs.y.data, [2, 4]), 'a long time');
  const part = new Float32Array([9, 1, 2, 9]).subarray(1, 3);
  check(same((await pool.infer('same_fp32', { x: { data: part, shape: [1, 2] } })).outputs.y.data, [1, 2]), 'a part of an array');
  const large = new Float32Array(1 << 18).fill(0.5);
  const back = (await pool.infer('same_fp32', { x: { data: large, shape: [1, large.length] } })).outputs.y.data;
  check(back.length === large.length && back[12345] === 0.5, 'a megabyte');
}

async function forms() {
  const inputs = { a: { data: [[5, 7]], shape: [1, 2], datatype: 'INT32' }, b: { data: new Int32Array([1, 2]), shape: [1, 2] } };
  const answer = await pool.infer('sums', inputs, { id: 'mine', outputs: ['difference'], parameters: { own: 'value' } });
  check(answer.id === 'mine' && answer.model === 'sums' && answer.version === '1' && Object.keys(answer.outputs).length === 1, 'id and wanted outputs', answer);
  check(same(answer.outputs.difference.data, [4, 5]), 'difference', answer);
  const json = await pool.infer('sums', inputs, { json: true, version: 1, priority: 1 });
  check(json.outputs.sum.data instanceof Int32Array && same(json.outputs.sum.data, [6, 9]), 'JSON', json);
  check(same((await pool.infer('same_bytes', { x: { data: ['a'], shape: [1, 1] } }, { json: true })).outputs.y.data, ['a']), 'texts as JSON');
  check(same((await pool.infer('sums', inputs, { needs: ['cpu_isa'] })).outputs.sum.data, [6, 9]), 'a flag that the worker has');
  const without = await pool.infer('sums', inputs, { needs: ['cpu_isa', 'wings'] }).catch((error) => error);
  check(without instanceof PenstockError && without.status === 501, 'a flag that no worker has', without);
  const zipped = await new Client(url, { gzip: true }).infer('same_fp32', { x: { data: new Float32Array(20000), shape: [1, 20000] } });
  check(zipped.outputs.y.data.length === 20000, 'gzip both ways');
  const states = [];
  for (const step of [0, 1, 2]) {
    const sequence = { id: 'my sequence', start: step === 0, end: step === 2 };
    const x = { data: new Float32Array([1, step]), shape: [1, 2] };
    states.push(...(await pool.infer('adder', { x }, { sequence, outputs: ['y'] })).outputs.y.data);
  }
  check(same(states, [1, 0, 2, 1, 3, 3]), 'a sequence', states);
  const image = { data: new Uint8Array(64).map((_, i) => (i % 8 === 4 && i > 8 && i < 56 ? 200 : 0)), shape: [1, 8, 8, 1] };
  const { data } = (await pool.infer('digits', { image }, { outputs: [{ name: 'probabilities', classes: 2 }] })).outputs.probabilities;
  check(data.length === 2 && data[0].label === 'one' && data[0].index === 1 && data[0].score > data[1].score, 'classes', data);
}

async function contracts() {
  const x = { data: new Float32Array([1, 9, 5, 7]), shape: [1, 4] };
  const kept = await pool.infer('share', { x }, { precision: 'max_relative_error=1e-3' });
  check(Number(kept.provenance.max_relative_error) <= 1e-3 && kept.provenance.precision === 'f32' && kept.debugLog === undefined, 'a bound that is kept', kept);
  check((await pool.infer('share', { x }, { provenance: true })).provenance.backend !== '', 'provenance');
  check((await pool.infer('share', { x }, { provenance: false })).provenance === undefined, 'none where nobody asks');
  await refused(pool.infer('share', { x }, { precision: 'max_relative_error=1e-15' }), 501, 'no worker keeps');
  await refused(pool.infer('share', { x }, { precision: 'f33' }), 400, 'is no precision');
  const debugged = await pool.infer('share', { x }, { debug: true });
  check(debugged.debugLog.includes('Softmax') && debugged.provenance === undefined && debugged.outputs.y.data.length === 4, 'a log of the operators', debugged);
  const row = { data: new Float32Array(4), shape: [4] };
  const lost = await refused(pool.infer('lookup', { x: row, i: { data: new BigInt64Array([9n]), shape: [1] } }, { debug: true }), 400, 'Gather');
  check(lost.debugLog?.includes('no NaN and no infinity'), 'the log of a run that failed', lost);
}

async function errors() {
  const x = { data: new Float32Array(4), shape: [1, 4] };
  await refused(pool.infer('nobody', { x }), 404, 'nobody');
  await refused(pool.infer('batched', { y: x }), 404, 'it takes: x');
  await refused(pool.infer('batched', { x: { data: new Float32Array(3), shape: [1, 4] } }), 400, '12 bytes');
  await refused(pool.infer('batched', { x: { data: [1, 2], shape: [2] } }), 400, 'datatype');
  await refused(pool.infer('batched', { x: { data: new Float32Array(4), shape: [1, 4], datatype: 'FP64' } }), 400, 'FP64');
  await refused(pool.infer('batched', { x: { data: x.data } }), 400, 'shape');
  for (const [datatype, data] of [['INT8', [300, 0]], ['UINT8', [-1, 0]], ['INT32', [1.5, 0]], ['INT32', [NaN, 0]], ['INT64', [1.5, 0]], ['INT64', [2n ** 63n, 0n]], ['UINT64', [-1n, 0n]], ['BOOL', [2, 0]],
    ['FP32', [1e39, 0]], ['FP32', [null, 0]], ['FP32', ['1', 0]], ['FP32', [new Float32Array(2), 0]], ['FP16', [1.5, 0]], ['BF16', [1, 0]], ['BYTES', [1, 'a']], ['INT32', new Float32Array(2)], ['FP32', null],
    ['FP32', new ArrayBuffer(8)]]) {
    await refused(pool.infer('same_fp32', { x: { data, shape: [1, 2], datatype } }), 400, 'input "x"');
  }
  const away = await refused(new Client('http://127.0.0.1:1').live(), 0, 'cannot be reached');
  check(away.retryable, 'it may be there later');
  const before = Date.now();
  const bytes = { data: new Uint8Array([1, 2, 3, 4]), shape: [1, 4] };
  const slow = new Client(slowUrl);
  await refused(slow.infer('null', { bytes }, { timeout: 200 }), 504, '');
  check(Date.now() - before < 2500, 'the time-out was in time');
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error('enough')), 100);
  const aborted = await slow.infer('null', { bytes }, { signal: stop.signal }).catch((error) => error);
  check(aborted.message === 'enough', 'aborted', aborted);
  const never = await slow.infer('null', { bytes }, { signal: AbortSignal.abort(new Error('before')) }).catch((error) => error);
  check(never.message === 'before', 'aborted before it began', never);
  await refused(new Client(tokenUrl).server(), 401, 'Bearer');
  await refused(new Client(tokenUrl, { token: 'wrong-token-00000' }).server(), 401, 'nobody');
  const allowed = new Client(tokenUrl, { token });
  check(same((await allowed.infer('batched', { x })).outputs.y.data, [0, 0, 0, 0]), 'a job with a token');
  await refused(allowed.load('batched'), 403, 'admin');
  await refused(allowed.infer('batched', { x }, { debug: true }), 403, 'admin');
}

await whatIsThere();
await types();
await forms();
await contracts();
await errors();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
