// Convolutions, pools, resizing, boxes.
export async function images({op, graph, at, random, f, i, b, c, ic, is, fs}) {
  const window = (strides, padding, more = {}) => ({strides: at.ints(...strides), padding: at.s(padding), ...more});
  const nhwc = {data_format: at.s('NHWC')};
  for (const [name, shape, kernel, strides, padding, dilations] of [
    ['same', [1, 5, 4, 2], [3, 3, 2, 3], [1, 1, 1, 1], 'SAME', [1, 1, 1, 1]], ['stride', [1, 6, 7, 2], [3, 3, 2, 3], [1, 2, 2, 1], 'SAME', [1, 1, 1, 1]],
    ['valid', [2, 5, 5, 1], [2, 3, 1, 2], [1, 2, 1, 1], 'VALID', [1, 1, 1, 1]], ['dilated', [1, 7, 7, 1], [3, 3, 1, 2], [1, 1, 1, 1], 'SAME', [1, 2, 2, 1]],
    ['point', [1, 3, 3, 4], [1, 1, 4, 5], [1, 1, 1, 1], 'SAME', [1, 1, 1, 1]], ['even', [1, 5, 5, 1], [4, 2, 1, 1], [1, 2, 2, 1], 'SAME', [1, 1, 1, 1]]])
    await op('Conv2D', [f(shape), c(f(kernel))], window(strides, padding, {...nhwc, dilations: at.ints(...dilations)}), {name});
  await op('Conv2D', [f([1, 4, 4, 1]), c(f([3, 3, 1, 2]))],
    window([1, 1, 1, 1], 'EXPLICIT', {...nhwc, dilations: at.ints(1, 1, 1, 1), explicit_paddings: at.ints(0, 0, 1, 0, 2, 1, 0, 0)}), {name: 'explicit'});
  await op('Conv2D', [f([1, 4, 4, 2]), f([3, 3, 2, 2])], window([1, 1, 1, 1], 'SAME', {...nhwc, dilations: at.ints(1, 1, 1, 1)}), {name: 'kernel as input'});
  for (const act of ['none', 'Relu', 'Relu6', 'Elu', 'Sigmoid', 'LeakyRelu', 'Prelu']) {
    const fused = act === 'none' ? ['BiasAdd'] : ['BiasAdd', act], args = [c(f([3]))];
    if (act === 'Prelu') args.push(c(f([3], [0.25, 0.5, -1])));
    const attr = window([1, 1, 1, 1], 'SAME', {...nhwc, dilations: at.ints(1, 1, 1, 1), fused_ops: at.texts(...fused), num_args: at.i(args.length),
      ...(act === 'LeakyRelu' ? {leakyrelu_alpha: at.f(0.3)} : {})});
    await op('_FusedConv2D', [f([1, 4, 4, 2]), c(f([3, 3, 2, 3])), ...args], attr, {name: act});
    if (act !== 'LeakyRelu') // the peer forgets the slope
      await op('FusedDepthwiseConv2dNative', [f([1, 4, 4, 3]), c(f([3, 3, 3, 1])), ...args], attr, {name: act});
  }
  await op('_FusedConv2D', [f([1, 4, 4, 2]), c(f([3, 3, 2, 3]))],
    window([1, 2, 2, 1], 'EXPLICIT', {...nhwc, explicit_paddings: at.ints(0, 0, 1, 1, 1, 1, 0, 0), fused_ops: at.texts(), num_args: at.i(0)}), {name: 'explicit without bias'});
  for (const kind of ['DepthwiseConv2dNative', 'DepthwiseConv2d']) {
    await op(kind, [f([1, 5, 5, 3]), c(f([3, 3, 3, 1]))], window([1, 2, 2, 1], 'SAME', {...nhwc, dilations: at.ints(1, 1, 1, 1)}), {name: 'same'});
    await op(kind, [f([1, 6, 6, 2]), c(f([3, 3, 2, 2]))], window([1, 1, 1, 1], 'VALID', {...nhwc, dilations: at.ints(1, 2, 2, 1)}), {name: 'multiplier'});
    await op(kind, [f([1, 4, 4, 2]), c(f([3, 3, 2, 1]))],
      window([1, 2, 2, 1], 'EXPLICIT', {...nhwc, dilations: at.ints(1, 1, 1, 1), explicit_paddings: at.ints(0, 0, 0, 1, 0, 1, 0, 0)}), {name: 'explicit'});
  }
  await op('Conv1D', [f([1, 7, 2]), c(f([3, 2, 3]))], {stride: at.i(2), padding: at.s('SAME')});
  await op('Conv1D', [f([1, 7, 2]), c(f([3, 2, 3]))], {stride: at.i(1), padding: at.s('VALID'), dilation: at.i(2)}, {name: 'dilated'});
  await op('Conv3D', [f([1, 3, 4, 4, 2]), c(f([2, 3, 2, 2, 2]))], window([1, 1, 2, 1, 1], 'SAME', {data_format: at.s('NDHWC'), dilations: at.ints(1, 1, 1, 1, 1)}));
  await op('Conv3D', [f([1, 3, 4, 4, 1]), c(f([2, 2, 2, 1, 2]))], window([1, 1, 1, 1, 1], 'VALID', {data_format: at.s('NDHWC'), dilations: at.ints(1, 1, 1, 1, 1)}), {name: 'valid'});
  for (const [name, out, kernel, x, strides, padding] of [['same', [1, 6, 6, 3], [3, 3, 3, 2], [1, 3, 3, 2], [1, 2, 2, 1], 'SAME'],
    ['valid', [1, 7, 7, 2], [3, 3, 2, 1], [1, 3, 3, 1], [1, 2, 2, 1], 'VALID'], ['valid longer', [1, 8, 7, 2], [3, 3, 2, 1], [1, 3, 3, 1], [1, 2, 2, 1], 'VALID'],
    ['odd', [1, 5, 6, 1], [2, 4, 1, 2], [1, 3, 3, 2], [1, 2, 2, 1], 'SAME']])
    await op('Conv2DBackpropInput', [ic(...out), c(f(kernel)), f(x)], window(strides, padding), {name});
  await op('Conv2DBackpropInput', [i([4], [1, 6, 6, 3]), c(f([3, 3, 3, 2])), f([1, 3, 3, 2])], window([1, 2, 2, 1], 'SAME'), {name: 'computed shape'});
  for (const kind of ['MaxPool', 'AvgPool']) {
    await op(kind, [f([1, 5, 5, 2])], window([1, 2, 2, 1], 'SAME', {ksize: at.ints(1, 3, 3, 1)}), {name: 'same'});
    await op(kind, [f([1, 4, 5, 1])], window([1, 1, 2, 1], 'VALID', {ksize: at.ints(1, 2, 2, 1)}), {name: 'valid'});
  }
  for (const kind of ['MaxPool3D', 'AvgPool3D'])
    await op(kind, [f([1, 4, 4, 5, 1])], window([1, 2, 2, 2, 1], 'SAME', {ksize: at.ints(1, 2, 3, 2, 1)}));
  await op('MaxPoolWithArgmax', [f([1, 4, 4, 2])], window([1, 2, 2, 1], 'SAME', {ksize: at.ints(1, 2, 2, 1), include_batch_in_index: at.b(false)}), {outs: 2});
  await op('MaxPoolWithArgmax', [f([2, 3, 4, 2])], window([1, 1, 1, 1], 'SAME', {ksize: at.ints(1, 2, 3, 1), include_batch_in_index: at.b(true)}), {outs: 2, name: 'batch'});
  await op('Dilation2D', [f([1, 5, 5, 2]), c(f([2, 3, 2]))], {strides: at.ints(1, 1, 1, 1), rates: at.ints(1, 1, 1, 1), padding: at.s('SAME')});
  await op('Dilation2D', [f([1, 6, 6, 1]), c(f([2, 2, 1]))], {strides: at.ints(1, 2, 2, 1), rates: at.ints(1, 2, 2, 1), padding: at.s('VALID')}, {name: 'rates'});

  for (const kind of ['ResizeBilinear', 'ResizeNearestNeighbor'])
    for (const [name, corners, half] of [['plain', false, false], ['corners', true, false], ['half', false, true]])
      for (const [shape, size] of [[[1, 3, 4, 2], [6, 7]], [[1, 7, 5, 1], [3, 4]], [[1, 4, 4, 1], [4, 1]]])
        await op(kind, [f(shape), ic(...size)], {align_corners: at.b(corners), half_pixel_centers: at.b(half)}, {name: `${name} ${shape} ${size}`});
  await op('ResizeBilinear', [i([1, 2, 2, 1], [1, 5, 9, 12]), ic(3, 3)], {align_corners: at.b(false), half_pixel_centers: at.b(false)}, {name: 'int32'});
  await op('ResizeBilinear', [f([1, 2, 2, 1]), i([2], [3, 5])], {align_corners: at.b(true), half_pixel_centers: at.b(false)}, {name: 'size computed'});
  const crops = [f([4, 4], [0, 0, 1, 1, 0.25, 0.5, 0.75, 1, 1, 1, 0, 0, -0.5, 0, 0.5, 1.5]), c(i([4], [0, 1, 0, 1]))];
  for (const method of ['bilinear', 'nearest'])
    await op('CropAndResize', [f([2, 4, 5, 2]), ...crops, ic(3, 2)], {method: at.s(method), extrapolation_value: at.f(-1)}, {name: method});
  await op('CropAndResize', [f([2, 4, 5, 1]), ...crops, ic(1, 1)], {method: at.s('bilinear'), extrapolation_value: at.f(0)}, {name: 'one pixel'});
  for (const mode of ['CONSTANT', 'NEAREST'])
    for (const method of ['BILINEAR', 'NEAREST'])
      await op('ImageProjectiveTransformV3', [f([1, 4, 4, 1]), c(f([1, 8], [0.75, 0.25, -1.5, -0.25, 1, 2.5, 0, 0])), ic(3, 5), fs(7)],
        {interpolation: at.s(method), fill_mode: at.s(mode)}, {name: `${mode} ${method}`});

  const boxes = c(f([6, 4], [0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101]));
  const scores = f([6], [0.9, 0.75, 0.6, 0.95, 0.5, 0.3]);
  await op('NonMaxSuppressionV2', [boxes, scores, is(3), fs(0.5)]);
  await op('NonMaxSuppressionV3', [boxes, scores, is(3), fs(0.5), fs(0.4)]);
  await op('NonMaxSuppressionV3', [f(boxes.shape, boxes.values), scores, is(30), fs(0.5), fs(0.4)], {}, {name: 'boxes as input'});
  await op('NonMaxSuppressionV3', [c(f([2, 4], [1, 1, 0, 0, 0, 1, 1, 0])), f([2], [0.5, 0.9]), is(3), fs(0.5), fs(0)], {}, {name: 'flipped'});
  for (const pad of [false, true])
    await op('NonMaxSuppressionV4', [boxes, scores, is(5), fs(0.5), fs(0.4)], {pad_to_max_output_size: at.b(pad)}, {outs: 2, name: `${pad}`});
  await op('NonMaxSuppressionV5', [boxes, scores, is(6), fs(0.5), fs(0.1), fs(0)], {}, {outs: 2, name: 'hard'});
  await op('NonMaxSuppressionV5', [boxes, scores, is(6), fs(1), fs(0.1), fs(0.5)], {}, {outs: 2, name: 'soft'});
}
