/** Types of penstock.mjs. */

export type Datatype =
  | 'BOOL' | 'UINT8' | 'UINT16' | 'UINT32' | 'UINT64' | 'INT8' | 'INT16' | 'INT32' | 'INT64' | 'FP16' | 'BF16' | 'FP32' | 'FP64' | 'BYTES';

/** FP16 and BF16 are the bits of the numbers, BOOL is 0 or 1. */
export type TypedArray =
  | Uint8Array | Uint8ClampedArray | Uint16Array | Uint32Array | BigUint64Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Float32Array | Float64Array;

export type Element = number | bigint | boolean | string | Uint8Array;
export type Nested<T> = T | ReadonlyArray<Nested<T>>;

export interface Input {
  /** In C order. Arrays may be nested. */
  data: TypedArray | ReadonlyArray<Nested<Element>>;
  shape: readonly number[];
  /** Needed for arrays of numbers, FP16 and BF16; else told from the data. */
  datatype?: Datatype;
}

export interface Class {
  score: number;
  index: number;
  /** "" where the model has no names. */
  label: string;
}

export interface Output {
  name: string;
  datatype: Datatype;
  shape: number[];
  /** A typed array; texts of BYTES; classes where they were asked for. */
  data: TypedArray | string[] | Uint8Array[] | Class[];
}

export interface CallOptions {
  /** Milliseconds. Of infer it is also the job's deadline in the pool. */
  timeout?: number;
  /** Aborting cancels the job; the call then throws the signal's reason. */
  signal?: AbortSignal;
}

export interface ModelOptions extends CallOptions {
  /** A number, or the name of a label; the highest ready one without it. */
  version?: number | string;
}

export interface InferOptions extends ModelOptions {
  id?: string;
  /** Names of those wanted, or with `classes` how many best classes of them; all without it. */
  outputs?: ReadonlyArray<string | { name: string; classes?: number }>;
  sequence?: { id: number | string; start?: boolean; end?: boolean };
  /** 1 is the most urgent. */
  priority?: number;
  /** "f32", "f32-exact" or "max_relative_error=1e-2": what the answer's numbers must keep. The answer then has its provenance. */
  precision?: string;
  /** The answer says what its numbers rest on. */
  provenance?: boolean;
  /** Runs alone, in debug mode, on a worker with --allow-debug: the answer has a log of its operators. Needs a token whose key has the role admin. */
  debug?: boolean;
  /** Flags that the worker must have, "NAME" or "NAME=VALUE", as `penstock workers --flags` lists them; at most 16. */
  needs?: readonly string[];
  /** For the model. */
  parameters?: Record<string, string | number | boolean>;
  /** Numbers travel as JSON: slower, and readable on the way. FP16, BF16 and inputs of 64-bit integers stay binary. 64-bit outputs beyond 2^53 lose digits. */
  json?: boolean;
  /** BYTES come as Uint8Array instead of strings. */
  rawTexts?: boolean;
}

export interface Result {
  model: string;
  version: string;
  id?: string;
  /** backend, device, precision, library, isa, engine_build, age_us, max_relative_error, mean_relative_error, error_inputs, error_source. */
  provenance?: Record<string, string>;
  /** With `debug`: a line per operator. */
  debugLog?: string;
  outputs: Record<string, Output>;
}

export interface TensorMetadata {
  name: string;
  datatype: Datatype;
  /** -1: any. */
  shape: number[];
}

export interface ModelMetadata {
  name: string;
  versions: string[];
  platform: string;
  inputs: TensorMetadata[];
  outputs: TensorMetadata[];
}

export interface ServerMetadata {
  name: string;
  version: string;
  extensions: string[];
}

export class PenstockError extends Error {
  constructor(message: string, status: number, cause?: unknown);
  /** Of HTTP; 504: the time ran out; 0: nobody answered, or what came was no answer. */
  readonly status: number;
  readonly retryable: boolean;
  /** Of a run in debug mode that failed. */
  readonly debugLog?: string;
}

export class Client {
  constructor(url: string | URL, options?: { token?: string; gzip?: boolean; timeout?: number; fetch?: typeof fetch });
  live(options?: CallOptions): Promise<boolean>;
  ready(model?: string, options?: ModelOptions): Promise<boolean>;
  server(options?: CallOptions): Promise<ServerMetadata>;
  metadata(model: string, options?: ModelOptions): Promise<ModelMetadata>;
  config(model: string, options?: ModelOptions): Promise<Record<string, unknown>>;
  statistics(model?: string, options?: ModelOptions): Promise<{ model_stats: Array<Record<string, unknown>> }>;
  index(options?: CallOptions): Promise<Array<{ name: string; version: string; state: string; reason: string }>>;
  load(model: string, options?: CallOptions): Promise<null>;
  unload(model: string, options?: CallOptions): Promise<null>;
  infer(model: string, inputs: Record<string, Input>, options?: InferOptions): Promise<Result>;
}
