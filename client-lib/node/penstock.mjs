/*
 * penstock.mjs - a Penstock pool from Node (18 and later) and from browsers, over penstock-gateway's HTTP (Open Inference Protocol, version 2).
 *
 * Needs nothing but fetch. Tensors travel as binary data: typed arrays go in, typed arrays come out. penstock.d.ts has the types.
 */

const ARRAYS = {
  BOOL: Uint8Array, UINT8: Uint8Array, UINT16: Uint16Array, UINT32: Uint32Array, UINT64: BigUint64Array, INT8: Int8Array, INT16: Int16Array,
  INT32: Int32Array, INT64: BigInt64Array, FP16: Uint16Array, BF16: Uint16Array, FP32: Float32Array, FP64: Float64Array,
};
// By the names of typed arrays, which are the same in other realms (frames, Jest) and for a Buffer.
const DATATYPES = {
  Uint8Array: 'UINT8', Uint8ClampedArray: 'UINT8', Uint16Array: 'UINT16', Uint32Array: 'UINT32', BigUint64Array: 'UINT64', Int8Array: 'INT8', Int16Array: 'INT16',
  Int32Array: 'INT32', BigInt64Array: 'INT64', Float16Array: 'FP16', Float32Array: 'FP32', Float64Array: 'FP64',
};
const LONGEST_TIMER = 2 ** 31 - 1; // setTimeout ends at once beyond it
const WITHOUT_JSON = new Set(['FP16', 'BF16', 'INT64', 'UINT64']); // no form in JSON, or not all digits in JavaScript's
const utf8 = new TextEncoder();
const text = new TextDecoder();

/** Why a call failed: one sentence, and the status of HTTP; 504: the time ran out; 0: nobody answered, or what came was no answer. */
export class PenstockError extends Error {
  constructor(message, status, cause) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'PenstockError';
    this.status = status;
  }

  /** The same call may succeed later. */
  get retryable() {
    return this.status === 0 || this.status === 503;
  }
}

// ---- tensors ----

function refuse(name, why) {
  throw new PenstockError(`input "${name}": ${why}`, 400);
}

function datatypeOf(name, data) {
  const found = ArrayBuffer.isView(data) && DATATYPES[data[Symbol.toStringTag]];
  if (found) return found;
  const first = Array.isArray(data) ? data.flat(Infinity)[0] : undefined;
  if (typeof first === 'string' || first instanceof Uint8Array) return 'BYTES';
  if (typeof first === 'boolean') return 'BOOL';
  if (typeof first === 'bigint') return 'INT64';
  return refuse(name, 'its datatype cannot be told from the data: say which, such as datatype: "FP32"');
}

/** The elements one behind the other, whatever arrays they lie in. */
function flat(data) {
  return Array.isArray(data) ? data.flat(Infinity) : data;
}

function packTexts(name, elements) {
  const parts = elements.map((one) => (typeof one === 'string' ? utf8.encode(one) : one instanceof Uint8Array ? one : refuse(name, `a text is a string or a Uint8Array, not ${String(one)}`)));
  const packed = new Uint8Array(parts.reduce((sum, part) => sum + 4 + part.length, 0));
  const view = new DataView(packed.buffer);
  let at = 0;
  for (const part of parts) {
    view.setUint32(at, part.length, true);
    packed.set(part, at + 4);
    at += 4 + part.length;
  }
  return packed;
}

function unpackTexts(bytes, raw) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = [];
  for (let at = 0; at + 4 <= bytes.length;) {
    const end = at + 4 + view.getUint32(at, true);
    if (end > bytes.length) throw new PenstockError('the answer has a text that ends behind its tensor', 0);
    const part = bytes.subarray(at + 4, end);
    found.push(raw ? part : text.decode(part));
    at = end;
  }
  return found;
}

/** Plain elements as a typed array. What the datatype cannot hold is refused, where the typed array would wrap or cut it. */
function numbersOf(name, datatype, elements) {
  if (datatype.endsWith('F16') || datatype === 'FP16') refuse(name, `${datatype} needs a Uint16Array with the bits of the numbers`);
  const wide = datatype.endsWith('INT64');
  const array = new ARRAYS[datatype](elements.length);
  elements.forEach((given, i) => {
    const one = datatype === 'BOOL' && typeof given === 'boolean' ? Number(given) : wide && Number.isSafeInteger(given) ? BigInt(given) : given;
    const known = typeof one === (wide ? 'bigint' : 'number');
    if (known) array[i] = one;
    const kept = datatype.startsWith('FP') ? Number.isFinite(array[i]) || !Number.isFinite(one) : array[i] === one && !(datatype === 'BOOL' && one > 1);
    if (!known || !kept) refuse(name, `${datatype} cannot hold ${String(given)}`);
  });
  return array;
}

function isOf(datatype, tag) {
  return tag === ARRAYS[datatype].name || (tag === 'Uint8ClampedArray' && ARRAYS[datatype] === Uint8Array) || (tag === 'Float16Array' && datatype === 'FP16');
}

/** The bytes of an input, not copied when it is a typed array of its datatype. */
function bytesOf(name, datatype, data) {
  const plain = !ArrayBuffer.isView(data);
  if (plain && !Array.isArray(data)) refuse(name, 'its data is neither an array nor a typed array');
  if (datatype === 'BYTES') return packTexts(name, plain ? flat(data) : [data]);
  if (!ARRAYS[datatype]) refuse(name, `there is no datatype "${datatype}"`);
  if (plain) data = numbersOf(name, datatype, flat(data));
  else if (!isOf(datatype, data[Symbol.toStringTag])) refuse(name, `a ${data[Symbol.toStringTag]} has no ${datatype} elements`);
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function inputOf(name, given, json) {
  if (!given || given.data === undefined || given.data === null || !Array.isArray(given.shape)) refuse(name, 'it needs { data, shape }');
  const datatype = given.datatype ?? datatypeOf(name, given.data);
  const head = { name, datatype, shape: given.shape.map(Number) };
  if (json && !WITHOUT_JSON.has(datatype)) {
    const elements = Array.from(flat(given.data));
    return { head: { ...head, data: datatype === 'BOOL' ? elements.map(Boolean) : elements } };
  }
  const bytes = bytesOf(name, datatype, given.data);
  const elements = head.shape.reduce((product, dim) => product * dim, 1);
  if (datatype !== 'BYTES' && bytes.length !== elements * ARRAYS[datatype].BYTES_PER_ELEMENT)
    refuse(name, `${bytes.length} bytes do not make up ${datatype} of shape [${head.shape}]`);
  return { head: { ...head, parameters: { binary_data_size: bytes.length } }, bytes };
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Elements of an answer: a view of it where they lie aligned, else a copy. */
function elementsOf(datatype, buffer, at, size, raw) {
  if (datatype === 'BYTES') return unpackTexts(new Uint8Array(buffer, at, size), raw);
  const Kind = ARRAYS[datatype];
  if (!Kind) throw new PenstockError(`the answer has the unknown datatype "${datatype}"`, 0);
  return at % Kind.BYTES_PER_ELEMENT === 0 ? new Kind(buffer, at, size / Kind.BYTES_PER_ELEMENT) : new Kind(buffer.slice(at, at + size));
}

/** "0.93:7:seven" */
function classOf(one) {
  const [score, index, ...label] = one.split(':');
  return { score: Number(score), index: Number(index), label: label.join(':') };
}

function fromJson(output) {
  if (output.datatype === 'BYTES') return output.data;
  return ARRAYS[output.datatype].from(output.datatype.endsWith('INT64') ? output.data.map(BigInt) : output.data);
}

function outputsOf(head, buffer, at, classified, raw) {
  const outputs = {};
  for (const { name, datatype, shape, parameters, data } of head.outputs ?? []) {
    const size = parameters?.binary_data_size;
    if (size !== undefined && !(size >= 0 && at + size <= buffer.byteLength)) throw new PenstockError('the answer is shorter than it says', 0);
    const isClassified = classified.has(name);
    const values = size === undefined ? fromJson({ datatype, data }) : elementsOf(datatype, buffer, at, size, raw && !isClassified);
    outputs[name] = { name, datatype, shape, data: isClassified ? values.map(classOf) : values };
    at += size ?? 0;
  }
  return outputs;
}

// ---- calls ----

async function compressed(body) {
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function answerOf(body) {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new PenstockError('the answer is no JSON; NaN and infinities have no form in it: ask without json', 0, error);
  }
}

function path(model, version) {
  const which = version === undefined ? '' : `/versions/${encodeURIComponent(version)}`;
  return `v2/models/${encodeURIComponent(model)}${which}`;
}

/** What infer's options are in the protocol. */
function headOf(options, inputs, classified) {
  const { id, sequence, priority, timeout, json, parameters, precision, provenance, debug, needs } = options;
  const head = { inputs: inputs.map((input) => input.head), parameters: { ...parameters, binary_data_output: !json } };
  if (id !== undefined) head.id = String(id);
  if (priority !== undefined) head.parameters.priority = priority;
  if (precision !== undefined) head.parameters.penstock_precision = String(precision);
  if (provenance !== undefined) head.parameters.penstock_provenance = !!provenance;
  if (debug !== undefined) head.parameters.penstock_debug = !!debug;
  if (needs?.length) head.parameters.penstock_require = needs.join(';');
  if (Number.isFinite(timeout)) head.parameters.timeout = Math.max(1, Math.round(timeout * 1000));
  if (sequence) Object.assign(head.parameters, { sequence_id: sequence.id, sequence_start: !!sequence.start, sequence_end: !!sequence.end });
  if (options.outputs) {
    head.outputs = options.outputs.map((output) => {
      const { name, classes } = typeof output === 'string' ? { name: output } : output;
      if (classes) classified.add(name);
      return { name, parameters: classes ? { binary_data: true, classification: classes } : { binary_data: !json } };
    });
  }
  return head;
}

/** What the answer's numbers rest on: { backend, precision, max_relative_error ... }, all texts; undefined when nobody asked. */
function provenanceOf(parameters = {}) {
  const found = Object.entries(parameters).filter(([name]) => name.startsWith('penstock_') && name !== 'penstock_debug_log');
  return found.length ? Object.fromEntries(found.map(([name, value]) => [name.slice('penstock_'.length), value])) : undefined;
}

export class Client {
  #url;
  #token;
  #gzip;
  #timeout;
  #fetch;

  /** url: of the gateway, such as "http://127.0.0.1:8000". Keeps no connection of its own: nothing is to be closed. */
  constructor(url, { token, gzip = false, timeout, fetch: own } = {}) {
    this.#url = String(url).replace(/\/*$/, '/');
    this.#token = token;
    this.#gzip = gzip;
    this.#timeout = timeout;
    this.#fetch = own ?? ((...words) => globalThis.fetch(...words));
  }

  // The answer, and the memory that its body lies in. A time-out covers both.
  async #ask(where, { method = 'GET', body, headers = {}, signal, timeout = this.#timeout } = {}) {
    const stop = new AbortController();
    const forward = () => stop.abort(signal.reason);
    let late = false;
    const timer = timeout === undefined || timeout > LONGEST_TIMER ? undefined : setTimeout(() => stop.abort((late = true)), timeout);
    if (signal?.aborted) forward();
    signal?.addEventListener('abort', forward);
    if (this.#token) headers = { ...headers, Authorization: `Bearer ${this.#token}` };
    if (!this.#gzip) headers = { ...headers, 'Accept-Encoding': 'identity' }; // browsers pass it over
    try {
      const answer = await this.#fetch(this.#url + where, { method, body, headers, signal: stop.signal });
      return { answer, buffer: await answer.arrayBuffer() };
    } catch (error) {
      if (late) throw new PenstockError(`no answer within ${timeout} ms`, 504, error);
      if (signal?.aborted) throw signal.reason;
      throw new PenstockError(`${this.#url} cannot be reached: ${error.cause?.message ?? error.message}`, 0, error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', forward);
    }
  }

  async #good(where, request) {
    const { answer, buffer } = await this.#ask(where, request);
    if (answer.ok) return { answer, buffer };
    const body = text.decode(buffer);
    let told = {};
    try {
      told = JSON.parse(body) ?? {};
    } catch {
      // not the gateway's: a proxy's page
    }
    const error = new PenstockError(told.error ?? (body || `status ${answer.status} of ${where}`), answer.status);
    if (told.penstock_debug_log !== undefined) error.debugLog = told.penstock_debug_log;
    throw error;
  }

  async #json(where, request) {
    const { buffer } = await this.#good(where, request);
    return buffer.byteLength ? JSON.parse(text.decode(buffer)) : null;
  }

  async #holds(where, options) {
    const { answer } = await this.#ask(where, options);
    if (answer.status === 401 || answer.status === 403) throw new PenstockError('the gateway wants a token that it knows', answer.status);
    return answer.ok;
  }

  // ---- what is there ----

  live(options) {
    return this.#holds('v2/health/live', options);
  }

  /** Whether the pool, or a model of it, takes jobs. */
  ready(model, { version, ...options } = {}) {
    return this.#holds(model === undefined ? 'v2/health/ready' : `${path(model, version)}/ready`, options);
  }

  server(options) {
    return this.#json('v2', options);
  }

  metadata(model, { version, ...options } = {}) {
    return this.#json(path(model, version), options);
  }

  config(model, { version, ...options } = {}) {
    return this.#json(`${path(model, version)}/config`, options);
  }

  statistics(model, { version, ...options } = {}) {
    return this.#json(model === undefined ? 'v2/models/stats' : `${path(model, version)}/stats`, options);
  }

  index(options) {
    return this.#json('v2/repository/index', { ...options, method: 'POST' });
  }

  load(model, options) {
    return this.#json(`v2/repository/models/${encodeURIComponent(model)}/load`, { ...options, method: 'POST' });
  }

  unload(model, options) {
    return this.#json(`v2/repository/models/${encodeURIComponent(model)}/unload`, { ...options, method: 'POST' });
  }

  // ---- jobs ----

  /** inputs: { NAME: { data, shape, datatype? } }. Aborting, or the end of the time, cancels the job. */
  async infer(model, inputs, options = {}) {
    const { version, signal, timeout = this.#timeout, json = false, rawTexts = false } = options;
    const tensors = Object.entries(inputs).map(([name, given]) => inputOf(name, given, json));
    const classified = new Set();
    const head = utf8.encode(JSON.stringify(headOf({ ...options, timeout }, tensors, classified)));
    const parts = tensors.flatMap((tensor) => (tensor.bytes ? [tensor.bytes] : []));
    const headers = parts.length ? { 'Inference-Header-Content-Length': String(head.length), 'Content-Type': 'application/octet-stream' } : { 'Content-Type': 'application/json' };
    let body = parts.length ? joined([head, ...parts]) : head;
    if (this.#gzip) {
      body = await compressed(body);
      headers['Content-Encoding'] = 'gzip';
    }
    const { answer, buffer } = await this.#good(`${path(model, version)}/infer`, { method: 'POST', body, headers, signal, timeout });
    const length = answer.headers.get('Inference-Header-Content-Length');
    const end = length === null ? buffer.byteLength : Number(length);
    const told = answerOf(text.decode(new Uint8Array(buffer, 0, end)));
    return { model: told.model_name, version: told.model_version, id: told.id, provenance: provenanceOf(told.parameters), debugLog: told.parameters?.penstock_debug_log, outputs: outputsOf(told, buffer, end, classified, rawTexts) };
  }
}
