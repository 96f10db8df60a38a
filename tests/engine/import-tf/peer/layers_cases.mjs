// Writes cases/layers.jsonl: small layers models with the answers of the real @tensorflow/tfjs (cpu backend). Each is written as the runtime saves it and once
// more without every field that the runtime itself can do without, so that the defaults of absent fields are held too.
//   PENSTOCK_TFJS_MODULES=<node_modules with @tensorflow/tfjs 4.22.0> node layers_cases.mjs ../cases/layers.jsonl
import {tf, Tensor, seed, random, f, i, record, toTensor, fromTensor, keep, save} from './cases.mjs';

await tf.setBackend('cpu');
const L = tf.layers;
const clone = value => JSON.parse(JSON.stringify(value));

async function artifacts(model) {
  let all;
  await model.save(tf.io.withSaveHandler(a => { all = a; return {modelArtifactsInfo: {}}; }));
  return all;
}

async function answer(topology, specs, data, feeds) {
  const model = await tf.loadLayersModel(tf.io.fromMemory({modelTopology: clone(topology), weightSpecs: specs, weightData: data}));
  const got = model.predict(feeds.length === 1 ? toTensor(feeds[0]) : feeds.map(toTensor));
  const results = [];
  for (const t of Array.isArray(got) ? got : [got]) results.push(await fromTensor(t));
  return {results, inputs: model.inputNames, outputs: model.outputNames};
}

// Every object that is the configuration of a layer.
function* configs(value) {
  if (Array.isArray(value)) for (const item of value) yield* configs(item);
  else if (value && typeof value === 'object') {
    if (value.class_name && value.config && !Array.isArray(value.config)) yield value.config;
    for (const item of Object.values(value)) yield* configs(item);
  }
}

async function bare(topology, specs, data, feeds) {
  const small = clone(topology);
  for (const config of configs(small))
    for (const key of Object.keys(config)) {
      if (['name', 'layers', 'batch_input_shape', 'input_layers', 'output_layers', 'layer', 'cell', 'cells'].includes(key)) continue;
      const value = config[key];
      delete config[key];
      try {
        const {results} = await answer(small, specs, data, feeds);
        if (results.some(t => t.values.some(v => Number.isNaN(v)))) throw new Error('not a number');
      } catch {
        config[key] = value;
      }
    }
  return small;
}

function weightsOf(specs, data) {
  let at = 0;
  return specs.map(s => {
    const count = s.shape.reduce((a, b) => a * b, 1), typed = s.dtype === 'int32' ? Int32Array : Float32Array;
    const t = new Tensor(s.dtype, s.shape, Array.from(new typed(data.slice(at, at + 4 * count))));
    at += 4 * count;
    return record(s.name, t);
  });
}

async function write(name, topology, specs, data, feeds, extra) {
  const {results, inputs, outputs} = await answer(topology, specs, data, feeds);
  keep({n: name, model: {modelTopology: topology}, w: weightsOf(specs, data), in: feeds.map((t, k) => record(inputs[k], t)),
    out: results.map((t, k) => record(outputs[k], t))});
}

// A model with weights of short numbers, run on the feeds.
async function model(name, m, feeds, extra = {}) {
  try {
    m.setWeights(m.getWeights().map(w => tf.tensor(random(w.shape, /variance/.test(w.name) ? 0.5 : -1, 1), w.shape)));
    for (const l of m.layers) // what is divided by must be positive
      if (l.getClassName() === 'BatchNormalization')
        l.setWeights(l.weights.map(w => tf.tensor(random(w.shape, /variance/.test(w.name) ? 0.5 : -1, 2), w.shape)));
    const a = await artifacts(m);
    await write(name, a.modelTopology, a.weightSpecs, a.weightData, feeds, extra);
    if (extra.whole) return;
    const small = await bare(a.modelTopology, a.weightSpecs, a.weightData, feeds);
    await write(`${name} bare`, small, a.weightSpecs, a.weightData, feeds, extra);
  } catch (error) {
    console.error(`${name}: the peer refuses: ${error.message.slice(0, 200)}`);
  }
}

const layer = (name, make, shape, feed) => {
  const m = tf.sequential();
  try {
    m.add(make({inputShape: shape}));
  } catch (error) {
    console.error(`${name}: the peer refuses: ${error.message.slice(0, 200)}`);
    return Promise.resolve();
  }
  return model(name, m, [feed || f([1, ...shape])]);
};
async function merge(name, make, shapes, extra = {}) {
  const ins = shapes.map(s => tf.input({shape: s}));
  let m;
  try {
    m = tf.model({inputs: ins, outputs: make().apply(ins)});
  } catch (error) {
    console.error(`${name}: the peer refuses: ${error.message.slice(0, 200)}`);
    return;
  }
  await model(name, m, shapes.map(s => f([2, ...s])), extra);
}

seed(11);
const image = [4, 5, 2], wave = [3.25, -1.5, 0.5, 7, -4, 0];
for (const activation of ['elu', 'gelu', 'hardSigmoid', 'linear', 'mish', 'relu', 'relu6', 'selu', 'sigmoid', 'softmax', 'logSoftmax', 'softplus', 'softsign', 'swish', 'tanh'])
  await layer(`Activation ${activation}`, o => L.activation({...o, activation}), [6], f([1, 6], wave));
await layer('Dense', o => L.dense({...o, units: 3}), [4]);
await layer('Dense activation', o => L.dense({...o, units: 3, activation: 'relu', useBias: false}), [4]);
await layer('Dense rank 3', o => L.dense({...o, units: 3, activation: 'softmax'}), [2, 4]);
for (const kind of ['dropout', 'spatialDropout1d', 'gaussianNoise', 'gaussianDropout', 'alphaDropout'])
  if (L[kind]) await layer(kind, o => L[kind]({...o, rate: 0.5, stddev: 1}), [3, 2]);
await layer('ReLU', o => L.reLU({...o, maxValue: 2}), [6], f([1, 6], wave));
await layer('LeakyReLU', o => L.leakyReLU({...o, alpha: 0.1}), [6], f([1, 6], wave));
await layer('PReLU', o => L.prelu({...o, sharedAxes: [1, 2]}), image);
await layer('PReLU whole', o => L.prelu(o), [2, 3]);
await layer('ELU', o => L.elu(o), [6], f([1, 6], wave));
await layer('ThresholdedReLU', o => L.thresholdedReLU({...o, theta: 0.75}), [6], f([1, 6], wave));
await layer('Softmax', o => L.softmax({...o, axis: -1}), [3, 4]);
await layer('Flatten', o => L.flatten(o), image);
await layer('Flatten channels first', o => L.flatten({...o, dataFormat: 'channelsFirst'}), [2, 3, 4]);
await layer('Reshape', o => L.reshape({...o, targetShape: [-1, 4]}), image);
await layer('Permute', o => L.permute({...o, dims: [3, 1, 2]}), image);
await layer('RepeatVector', o => L.repeatVector({...o, n: 3}), [4]);
await layer('Embedding', o => L.embedding({...o, inputDim: 5, outputDim: 3}), [4], f([2, 4], [0, 4, 2, 1, 3, 3, 0, 2]));
await layer('Rescaling', o => L.rescaling({...o, scale: 0.5, offset: -1}), image);

for (const padding of ['valid', 'same'])
  await layer(`Conv1D ${padding}`, o => L.conv1d({...o, filters: 3, kernelSize: 3, padding, activation: 'relu'}), [7, 2]);
await layer('Conv1D stride', o => L.conv1d({...o, filters: 2, kernelSize: 2, strides: 2}), [7, 2]);
for (const padding of ['valid', 'same']) {
  await layer(`Conv2D ${padding}`, o => L.conv2d({...o, filters: 3, kernelSize: [3, 2], strides: padding === 'same' ? 2 : 1, padding, activation: 'elu'}), image);
  await layer(`Conv2DTranspose ${padding}`, o => L.conv2dTranspose({...o, filters: 3, kernelSize: 3, strides: 2, padding}), [3, 3, 2]);
  await layer(`SeparableConv2D ${padding}`, o => L.separableConv2d({...o, filters: 3, kernelSize: 3, padding}), image);
  await layer(`DepthwiseConv2D ${padding}`, o => L.depthwiseConv2d({...o, kernelSize: 3, depthMultiplier: 2, padding, strides: padding === 'same' ? 2 : 1}), image);
  await layer(`Conv3D ${padding}`, o => L.conv3d({...o, filters: 2, kernelSize: 2, padding}), [3, 3, 4, 2]);
  await layer(`Conv3DTranspose ${padding}`, o => L.conv3dTranspose({...o, filters: 2, kernelSize: 2, strides: 2, padding}), [2, 2, 3, 2]);
  await layer(`MaxPooling1D ${padding}`, o => L.maxPooling1d({...o, poolSize: 2, padding}), [5, 2]);
  await layer(`AveragePooling1D ${padding}`, o => L.averagePooling1d({...o, poolSize: 3, strides: 1, padding}), [5, 2]);
  await layer(`MaxPooling2D ${padding}`, o => L.maxPooling2d({...o, poolSize: [3, 2], strides: [2, 1], padding}), image);
  await layer(`AveragePooling2D ${padding}`, o => L.averagePooling2d({...o, poolSize: 3, padding}), image);
  await layer(`MaxPooling3D ${padding}`, o => L.maxPooling3d({...o, poolSize: 2, padding}), [3, 4, 4, 1]);
  await layer(`AveragePooling3D ${padding}`, o => L.averagePooling3d({...o, poolSize: 2, padding}), [3, 4, 4, 1]);
}
await layer('Conv2D dilated', o => L.conv2d({...o, filters: 2, kernelSize: 2, dilationRate: 2, useBias: false}), image);
await layer('Conv2D channels first', o => L.conv2d({...o, filters: 2, kernelSize: 2, dataFormat: 'channelsFirst'}), [2, 4, 5]);
await layer('Conv2DTranspose wide stride', o => L.conv2dTranspose({...o, filters: 2, kernelSize: 2, strides: 3}), [2, 3, 2]);
for (const [kind, shape] of [['globalAveragePooling1d', [4, 3]], ['globalMaxPooling1d', [4, 3]], ['globalAveragePooling2d', image], ['globalMaxPooling2d', image]])
  await layer(kind, o => L[kind](o), shape);
await layer('globalAveragePooling2d channels first', o => L.globalAveragePooling2d({...o, dataFormat: 'channelsFirst'}), [2, 3, 4]);
await layer('ZeroPadding2D', o => L.zeroPadding2d({...o, padding: [[1, 2], [0, 1]]}), image);
await layer('ZeroPadding2D one', o => L.zeroPadding2d({...o, padding: 2}), image);
await layer('ZeroPadding2D pair', o => L.zeroPadding2d({...o, padding: [1, 2]}), image);
await layer('Cropping2D', o => L.cropping2D({...o, cropping: [[1, 0], [0, 2]]}), image);
await layer('Cropping2D one', o => L.cropping2D({...o, cropping: 1}), image);
await layer('Cropping2D pair', o => L.cropping2D({...o, cropping: [1, 2]}), [4, 6, 1]);
for (const interpolation of ['nearest', 'bilinear'])
  await layer(`UpSampling2D ${interpolation}`, o => L.upSampling2d({...o, size: [2, 3], interpolation}), [2, 3, 1]);
await layer('BatchNormalization', o => L.batchNormalization({...o, epsilon: 0.01}), image);
// The peer's cpu backend goes round the last axis whatever the axis is: others are held by test_tf_run.c.
await layer('BatchNormalization no scale', o => L.batchNormalization({...o, scale: false}), image);
await layer('BatchNormalization no center', o => L.batchNormalization({...o, center: false}), image);
await layer('BatchNormalization vector', o => L.batchNormalization(o), [4]);
await layer('LayerNormalization', o => L.layerNormalization({...o, epsilon: 0.01}), [3, 4]);
await layer('LayerNormalization two axes', o => L.layerNormalization({...o, axis: [1, 2]}), [3, 4]);
await layer('LayerNormalization first axis', o => L.layerNormalization({...o, axis: 1}), [3, 4]);
await layer('LayerNormalization bare of weights', o => L.layerNormalization({...o, center: false, scale: false}), [3, 4]);

for (const kind of ['add', 'multiply', 'average', 'maximum', 'minimum']) {
  await merge(kind, () => L[kind](), [[2, 3], [2, 3], [2, 3]]);
  await merge(`${kind} broadcast`, () => L[kind](), [[2, 3], [3]].map((s, k) => k ? [1, 3] : s));
}
await merge('Concatenate', () => L.concatenate(), [[2, 3], [2, 1]]);
await merge('Concatenate axis', () => L.concatenate({axis: 1}), [[2, 3], [1, 3]]);
await merge('Dot', () => L.dot({axes: -1}), [[4], [4]], {whole: true});
await merge('Dot normalised', () => L.dot({axes: 1, normalize: true}), [[4], [4]], {whole: true});
await merge('Dot matrices', () => L.dot({axes: [2, 1]}), [[2, 3], [3, 4]], {whole: true});
await merge('Dot matrices other', () => L.dot({axes: [1, 2]}), [[3, 2], [4, 3]], {whole: true});
await merge('Dot last', () => L.dot({axes: 2}), [[2, 3], [4, 3]], {whole: true});
await merge('Dot vector', () => L.dot({axes: [2, 1]}), [[2, 3], [3]], {whole: true});

const steps = [4, 3];
for (const kind of ['simpleRNN', 'gru', 'lstm']) {
  await layer(kind, o => L[kind]({...o, units: 2}), steps);
  await layer(`${kind} sequences`, o => L[kind]({...o, units: 2, returnSequences: true}), steps);
  await layer(`${kind} backwards`, o => L[kind]({...o, units: 2, returnSequences: true, goBackwards: true}), steps);
  await layer(`${kind} activations`, o => L[kind]({...o, units: 2, activation: 'relu', recurrentActivation: 'sigmoid', useBias: false}), steps);
  await layer(`${kind} swish`, o => L[kind]({...o, units: 2, activation: 'swish', recurrentActivation: 'softsign'}), steps);
  await layer(`rnn ${kind}`, o => L.rnn({...o, cell: L[`${kind}Cell`]({units: 2}), returnSequences: true}), steps);
  const x = tf.input({shape: steps}), all = L[kind]({units: 2, returnSequences: true, returnState: true}).apply(x);
  await model(`${kind} states`, tf.model({inputs: x, outputs: all}), [f([2, ...steps])]);
  const first = tf.input({shape: steps}), states = (kind === 'lstm' ? [0, 1] : [0]).map(() => tf.input({shape: [2]}));
  await model(`${kind} initial state`, tf.model({inputs: [first, ...states], outputs: L[kind]({units: 2}).apply(first, {initialState: states})}),
    [f([1, ...steps]), ...states.map(() => f([1, 2]))]);
  for (const mergeMode of ['concat', 'sum', 'mul', 'ave'])
    await layer(`Bidirectional ${kind} ${mergeMode}`, o => L.bidirectional({...o, layer: L[kind]({units: 2, returnSequences: mergeMode !== 'sum'}), mergeMode}), steps);
  const masked = tf.sequential();
  masked.add(L.masking({inputShape: steps, maskValue: 0}));
  masked.add(L[kind]({units: 2, returnSequences: true}));
  masked.add(L[kind]({units: 2, goBackwards: true}));
  await model(`Masking ${kind}`, masked, [f([2, 4, 3], [1, 2, 3, 0, 0, 0, -1, 0, 0.5, 0, 0, 0, 0, 0, 0, 2, 1, -1, 0.5, 0.25, 1, 1, 1, -2])]);
}
await layer('rnn stacked', o => L.rnn({...o, cell: L.stackedRNNCells({cells: [L.lstmCell({units: 2}), L.gruCell({units: 3})]}), returnSequences: true}), steps);
const embedded = tf.sequential();
embedded.add(L.embedding({inputDim: 6, outputDim: 3, maskZero: true, inputLength: 5}));
embedded.add(L.lstm({units: 2}));
await model('Embedding mask zero', embedded, [f([2, 5], [1, 2, 0, 0, 0, 3, 0, 4, 5, 0])]);
await layer('Masking', o => L.masking({...o, maskValue: 1}), [3, 2], f([1, 3, 2], [1, 1, 1, 2, 3, 4]));
await layer('ConvLSTM2D', o => L.convLstm2d({...o, filters: 2, kernelSize: 2, padding: 'same', returnSequences: true}), [3, 4, 4, 1]);
await layer('ConvLSTM2D last', o => L.convLstm2d({...o, filters: 2, kernelSize: 3, strides: 2}), [2, 5, 5, 2]);
await layer('TimeDistributed dense', o => L.timeDistributed({...o, layer: L.dense({units: 2})}), steps);
await layer('TimeDistributed conv', o => L.timeDistributed({...o, layer: L.conv2d({filters: 2, kernelSize: 2})}), [2, 3, 3, 1]);
const inner = tf.sequential();
inner.add(L.dense({units: 3, inputShape: [4], activation: 'tanh'}));
inner.add(L.dense({units: 2}));
{
  const a = tf.input({shape: [4]}), b = tf.input({shape: [4]}); // one model at two places: its layers are shared
  await model('shared nested', tf.model({inputs: [a, b], outputs: L.add().apply([inner.apply(a), inner.apply(b)])}), [f([1, 4]), f([1, 4])]);
}
{
  const x = tf.input({shape: [4]}), h = L.dense({units: 3, name: 'trunk'}).apply(x);
  await model('two outputs', tf.model({inputs: x, outputs: [L.dense({units: 2, name: 'left'}).apply(h), L.dense({units: 1, name: 'right'}).apply(h)]}), [f([2, 4])]);
  const deep = tf.model({inputs: x, outputs: h}), y = tf.input({shape: [4]});
  await model('functional nested', tf.model({inputs: y, outputs: L.reLU().apply(deep.apply(y))}), [f([1, 4])]);
  const outer = tf.sequential();
  outer.add(tf.model({inputs: x, outputs: h}));
  outer.add(L.dense({units: 2}));
  await model('sequential of a model', outer, [f([1, 4])]);
}
// Keras' own layers that the peer lacks or cannot put into a model: the same by its operators.
async function foreign(kind, config, x, compute, weights = []) {
  const y = await fromTensor(compute(toTensor(x), ...weights.map(([, t]) => toTensor(t))));
  const layer = {class_name: kind, config: {name: 'l', ...config, batch_input_shape: [null, ...x.shape.slice(1)]}};
  keep({n: kind, model: {modelTopology: {model_config: {class_name: 'Sequential', config: {name: 's', layers: [layer]}}}},
    w: weights.map(([name, t]) => record(`l/${name}`, t)), in: [record('l_input', x)], out: [record('l', y)]});
}
const volume = [1, 4, 4, 5, 2];
await foreign('ZeroPadding1D', {padding: [1, 2]}, f([1, 3, 2]), x => tf.pad(x, [[0, 0], [1, 2], [0, 0]]));
await foreign('ZeroPadding3D', {padding: [[1, 0], [0, 2], [1, 1]]}, f(volume), x => tf.pad(x, [[0, 0], [1, 0], [0, 2], [1, 1], [0, 0]]));
await foreign('Cropping1D', {cropping: [1, 2]}, f([1, 6, 2]), x => tf.slice(x, [0, 1, 0], [1, 3, 2]));
await foreign('Cropping3D', {cropping: [[1, 0], [0, 2], [1, 1]]}, f(volume), x => tf.slice(x, [0, 1, 0, 1, 0], [1, 3, 2, 3, 2]));
await foreign('UpSampling1D', {size: 3}, f([1, 2, 2]), x => tf.reshape(tf.tile(tf.expandDims(x, 2), [1, 1, 3, 1]), [1, 6, 2]));
await foreign('UpSampling3D', {size: [2, 1, 2]}, f([1, 2, 2, 2, 1]), x => tf.gather(tf.gather(x, [0, 0, 1, 1], 1), [0, 0, 1, 1], 3));
await foreign('GlobalAveragePooling3D', {}, f(volume), x => tf.mean(x, [1, 2, 3]));
await foreign('GlobalMaxPooling3D', {keepdims: true}, f(volume), x => tf.max(x, [1, 2, 3], true));
for (const kind of ['SpatialDropout2D', 'SpatialDropout3D', 'ActivityRegularization']) await foreign(kind, {rate: 0.5}, f([1, 2, 3]), x => x.clone());
await foreign('SeparableConv1D', {filters: 3, kernel_size: [3], padding: 'same', depth_multiplier: 2}, f([1, 5, 2]),
  (x, d, p, b) => tf.squeeze(tf.add(tf.conv2d(tf.depthwiseConv2d(tf.expandDims(x, 1), tf.expandDims(d, 0), 1, 'same'), tf.expandDims(p, 0), 1, 'same'), b), [1]),
  [['depthwise_kernel', f([3, 2, 2])], ['pointwise_kernel', f([1, 4, 3])], ['bias', f([3])]]);
for (const interpolation of ['bilinear', 'nearest'])
  await foreign('Resizing', {height: 6, width: 3, interpolation}, f([1, 4, 5, 2]), x => L.resizing({height: 6, width: 3, interpolation}).call(x, {}));
await foreign('CategoryEncoding', {num_tokens: 5, output_mode: 'multi_hot'}, f([2, 4], [0, 4, 2, 2, 3, 3, 0, 1]), x => L.categoryEncoding({numTokens: 5, outputMode: 'multiHot'}).call(x, {}));
await foreign('CategoryEncoding', {num_tokens: 5, output_mode: 'count'}, f([2, 4], [0, 4, 2, 2, 3, 3, 0, 1]), x => L.categoryEncoding({numTokens: 5, outputMode: 'count'}).call(x, {}));
await foreign('CenterCrop', {height: 3, width: 2}, f([1, 6, 6, 2]), x => tf.slice(x, [0, 1, 2, 0], [1, 3, 2, 2]));
{
  const a = f([2, 3]), b = f([2, 3]), y = await fromTensor(tf.sub(toTensor(a), toTensor(b)));
  const input = name => ({name, class_name: 'InputLayer', config: {batch_input_shape: [null, 3], name}, inbound_nodes: []});
  keep({n: 'Subtract', model: {modelTopology: {class_name: 'Model', config: {name: 'm', layers: [input('a'), input('b'),
    {name: 's', class_name: 'Subtract', config: {name: 's'}, inbound_nodes: [[['a', 0, 0, {}], ['b', 0, 0, {}]]]}],
  input_layers: [['a', 0, 0], ['b', 0, 0]], output_layers: [['s', 0, 0]]}}}, w: [], in: [record('a', a), record('b', b)], out: [record('s', y)]});
}
save(process.argv[2]);
