// Arithmetic, comparisons, reductions, matrices, normalisation, complex numbers.
export async function matrix({op, graph, at, random, f, i, b, c, ic, is, fs}) {
  const plain = [-3.25, -1.5, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5, 2.5, 3.5, 7];
  const unit = [-1, -0.75, -0.5, -0.125, 0, 0.25, 0.5, 1], positive = [0.0625, 0.5, 1, 1.5, 2, 10];
  for (const kind of ['Abs', 'Ceil', 'Cos', 'Cosh', 'Elu', 'Erf', 'Exp', 'Expm1', 'Floor', 'Neg', 'Relu', 'Relu6', 'Round',
    'Selu', 'Sigmoid', 'Sign', 'Sin', 'Sinh', 'Softplus', 'Square', 'Tan', 'Tanh', 'Atan', 'Asinh'])
    await op(kind, [f([3, 4], plain)]);
  for (const kind of ['Acos', 'Asin']) await op(kind, [f([8], unit)]);
  await op('Atanh', [f([6], [-0.75, -0.5, 0, 0.25, 0.5, 0.875])]);
  await op('Acosh', [f([5], [1, 1.5, 2, 4, 100])]);
  for (const kind of ['Log', 'Log1p', 'Sqrt', 'Rsqrt', 'Reciprocal']) await op(kind, [f([2, 3], positive)]);
  for (const kind of ['IsNan', 'IsInf', 'IsFinite']) await op(kind, [f([4], [NaN, Infinity, -Infinity, 1])]);
  for (const kind of ['Abs', 'Neg', 'Sign', 'Square', 'Relu', 'Relu6']) await op(kind, [i([5], [-3, -1, 0, 2, 9])], {}, {name: 'int32'});
  await op('Log1p', [f([4], [1e-7, -1e-5, 1e-3, 0.5])], {}, {name: 'near zero'});
  await op('Expm1', [f([4], [1e-7, -1e-5, 1e-3, 0.5])], {}, {name: 'near zero'});
  await op('Softplus', [f([4], [-100, -20, 20, 100])], {}, {name: 'far'});
  await op('LeakyRelu', [f([3, 4], plain)], {alpha: at.f(0.1)});
  await op('LeakyRelu', [f([3, 4], plain)], {}, {name: 'default'});
  await op('Prelu', [f([1, 2, 2, 3]), c(f([3], [0.25, -0.5, 2]))]);
  await op('Prelu', [f([2, 2, 3]), c(f([2, 3], [0.25, -0.5, 2, 1, 0, 3]))], {}, {name: 'two axes'});
  await op('LogicalNot', [b([2], [1, 0])]);
  for (const kind of ['Cast'])
    for (const [from, to] of [[f([5], [-1.75, -0.5, 0, 0.5, 2.75]), 'DT_INT32'], [f([3], [0, 0.5, -2]), 'DT_BOOL'],
      [i([3], [-1, 0, 7]), 'DT_FLOAT'], [i([3], [-1, 0, 7]), 'DT_BOOL'], [b([2], [1, 0]), 'DT_FLOAT'], [b([2], [1, 0]), 'DT_INT32']])
      await op(kind, [from], {SrcT: at.type({float32: 'DT_FLOAT', int32: 'DT_INT32', bool: 'DT_BOOL'}[from.dtype]), DstT: at.type(to)},
        {name: `${from.dtype} ${to}`});
  await op('ClipByValue', [f([3, 4], plain), fs(-0.75), fs(2)], {clip_value_min: at.f(-0.75), clip_value_max: at.f(2)});
  for (const kind of ['Identity', 'StopGradient', 'Snapshot'])
    await op(kind, [f([2, 2])]);
  await op('Print', [f([2, 2])], {message: at.s('x')});
  await op('EnsureShape', [f([2, 2]), ic(2, 2)]);
  await op('IdentityN', [f([2]), f([3])], {}, {outs: 2});
  await op('FakeQuantWithMinMaxVars', [f([3, 4], plain), fs(-1), fs(4)], {num_bits: at.i(8)});

  const x = f([2, 3], [-3, -1.5, 0, 0.5, 2, 5]), y = f([3], [2, -1.5, 0.5]);
  for (const kind of ['Add', 'AddV2', 'Sub', 'Mul', 'RealDiv', 'Div', 'Maximum', 'Minimum', 'SquaredDifference', 'FloorMod', 'Mod',
    'Equal', 'NotEqual', 'Greater', 'GreaterEqual', 'Less', 'LessEqual', 'Atan2'])
    await op(kind, [x, y]);
  await graph('FloorDiv', {x, y}, [{name: 'd', op: 'FloorDiv', input: ['x', 'y'], attr: {T: {type: 'DT_FLOAT'}}}, // the peer gives int32 here
    {name: 'y1', op: 'Cast', input: ['d'], attr: {DstT: {type: 'DT_FLOAT'}}}], ['y1']);
  const m = i([2, 3], [-7, -3, 0, 5, 8, 9]), n = i([3], [2, -3, 4]);
  for (const kind of ['AddV2', 'Sub', 'Mul', 'RealDiv', 'Div', 'Maximum', 'Minimum', 'SquaredDifference', 'FloorMod', 'FloorDiv', 'Equal', 'Less'])
    await op(kind, [m, n], {}, {name: 'int32'});
  await op('DivNoNan', [x, f([3], [2, 0, -1])]);
  await op('Pow', [f([4], [0.5, 1, 2, 3]), f([4], [2, -1, 0.5, 3])]);
  await op('Pow', [i([4], [2, 3, -2, 5]), i([4], [3, 2, 3, 0])], {}, {name: 'int32'});
  await op('AddN', [f([3]), f([3]), f([3])]);
  for (const kind of ['LogicalAnd', 'LogicalOr']) await op(kind, [b([4], [0, 0, 1, 1]), b([4], [0, 1, 0, 1])]);
  await op('BiasAdd', [f([1, 2, 2, 3]), c(f([3], [1, -2, 0.5]))]);
  await op('BiasAdd', [f([2, 3]), c(f([3], [1, -2, 0.5]))], {}, {name: 'rank 2'});

  for (const kind of ['Max', 'Mean', 'Min', 'Prod', 'Sum', 'EuclideanNorm']) {
    await op(kind, [f([2, 3, 2]), ic(1)], {keep_dims: at.b(false)});
    await op(kind, [f([2, 3, 2]), ic(0, 2)], {keep_dims: at.b(true)}, {name: 'kept'});
    await op(kind, [f([2, 3, 2]), is(-1)], {keep_dims: at.b(false)}, {name: 'scalar axis'});
  }
  await op('Mean', [f([1, 3, 4, 2]), ic(1, 2)], {keep_dims: at.b(false)}, {name: 'image'});
  await op('Sum', [f([2, 3]), c(i([0], []))], {keep_dims: at.b(false)}, {name: 'no axes'});
  for (const kind of ['Max', 'Sum', 'Prod', 'Mean']) await op(kind, [i([2, 3], [1, 2, 3, 4, 5, 6]), ic(1)], {keep_dims: at.b(false)}, {name: 'int32'});
  for (const kind of ['All', 'Any']) await op(kind, [b([2, 3], [1, 1, 1, 0, 1, 0]), ic(1)], {keep_dims: at.b(false)});
  for (const kind of ['ArgMax', 'ArgMin']) {
    await op(kind, [f([2, 4], [1, 5, 5, 0, -2, -2, 3, 3]), is(1)]);
    await op(kind, [f([2, 2, 3]), is(-2)], {}, {name: 'middle'});
  }
  for (const kind of ['Cumsum', 'Cumprod'])
    for (const exclusive of [false, true])
      for (const reverse of [false, true])
        await op(kind, [f([2, 4]), is(1)], {exclusive: at.b(exclusive), reverse: at.b(reverse)}, {name: `${exclusive} ${reverse}`});
  await op('Cumsum', [i([4, 2], [1, 2, 3, 4, 5, 6, 7, 8]), is(0)], {}, {name: 'int32'});
  for (const kind of ['Softmax', 'LogSoftmax']) await op(kind, [f([2, 2, 4])]);
  await op('Bincount', [i([6], [1, 2, 1, 4, 0, 1]), is(5), c(f([0], []))]);
  await op('Bincount', [i([4], [1, 2, 1, 4]), is(4), f([4], [0.5, 1, 2, 3])], {}, {name: 'weighted'});
  await op('DenseBincount', [i([2, 3], [1, 2, 1, 0, 0, 3]), is(4), c(f([0], []))], {binary_output: at.b(false)}, {name: 'rows'});
  await op('DenseBincount', [i([2, 3], [1, 2, 1, 0, 0, 3]), is(4), c(f([0], []))], {binary_output: at.b(true)}, {name: 'binary'});

  for (const [ta, tb] of [[false, false], [true, false], [false, true], [true, true]])
    await op('MatMul', [f(ta ? [3, 2] : [2, 3]), c(f(tb ? [4, 3] : [3, 4]))], {transpose_a: at.b(ta), transpose_b: at.b(tb)}, {name: `${ta} ${tb}`});
  await op('MatMul', [f([2, 3]), f([3, 4])], {transpose_a: at.b(false), transpose_b: at.b(false)}, {name: 'two inputs'});
  for (const act of ['', 'Relu', 'Relu6', 'Elu', 'Sigmoid', 'LeakyRelu', 'Prelu']) {
    const args = [c(f([4]))];
    if (act === 'Prelu') args.push(c(f([4], [0.25, 0.5, -1, 2])));
    await op('_FusedMatMul', [f([3, 3]), c(f([3, 4])), ...args],
      {fused_ops: at.texts('BiasAdd', ...(act ? [act] : [])), num_args: at.i(args.length), transpose_a: at.b(false), transpose_b: at.b(false),
        ...(act === 'LeakyRelu' ? {leakyrelu_alpha: at.f(0.3)} : {})}, {name: act});
  }
  await op('BatchMatMul', [f([2, 2, 3]), f([2, 3, 4])], {adj_x: at.b(false), adj_y: at.b(false)});
  await op('BatchMatMulV2', [f([2, 2, 3, 2]), f([2, 2, 4, 3])], {adj_x: at.b(true), adj_y: at.b(true)}, {name: 'adjoint'});
  await op('BatchMatMulV2', [f([2, 2, 3]), c(f([3, 4]))], {adj_x: at.b(false), adj_y: at.b(false)}, {name: 'broadcast'});
  for (const [e, ...shapes] of [['ij,jk->ik', [2, 3], [3, 4]], ['bij,bjk->bik', [2, 2, 3], [2, 3, 2]], ['abc,cd->abd', [2, 2, 3], [3, 2]],
    ['ij->ji', [2, 3]], ['ij->i', [2, 3]], ['ij,ij->', [2, 3], [2, 3]], ['abcd,cde->abe', [1, 2, 2, 3], [2, 3, 2]], ['aecd,abcd->acbe', [1, 3, 2, 2], [1, 2, 2, 2]], ['acbe,aecd->abcd', [1, 2, 3, 2], [1, 2, 2, 2]]])
    await op('Einsum', shapes.map(s => f(s)), {equation: at.s(e), N: at.i(shapes.length)}, {name: e});
  // The peer takes the lower number for both; only equal ones say something.
  await op('MatrixBandPart', [f([3, 4]), is(1), is(1)]);
  await op('MatrixBandPart', [f([2, 3, 3]), is(0), is(0)], {}, {name: 'diagonal'});
  await op('FusedBatchNormV3', [f([1, 2, 2, 3]), c(f([3])), c(f([3])), c(f([3])), c(f([3], [0.5, 1, 2]))],
    {epsilon: at.f(0.001), is_training: at.b(false)});
  await op('FusedBatchNorm', [f([1, 2, 2, 3]), c(f([3])), c(f([3])), c(f([3])), c(f([3], [0.5, 1, 2]))], {}, {name: 'default'});
  await op('FusedBatchNormV2', [f([1, 2, 2, 3]), c(f([3])), c(f([3])), c(f([3])), c(f([3], [0.5, 1, 2]))], {epsilon: at.f(0.01)});
  await op('LRN', [f([1, 2, 2, 7])], {depth_radius: at.i(2), bias: at.f(1.5), alpha: at.f(0.5), beta: at.f(0.75)});
  await op('LRN', [f([1, 2, 2, 7])], {}, {name: 'default'});

  // Complex numbers are made and taken apart inside the graph: outputs are real.
  const real = f([2, 4]), imaginary = f([2, 4]);
  const pair = {re: real, im: imaginary}, join = {name: 'z', op: 'Complex', input: ['re', 'im'], attr: {}};
  for (const kind of ['Real', 'Imag', 'ComplexAbs'])
    await graph(kind, pair, [join, {name: 'op', op: kind, input: ['z'], attr: {}}], ['op']);
  for (const kind of ['FFT', 'IFFT'])
    await graph(kind, pair, [join, {name: 'op', op: kind, input: ['z'], attr: {}}, {name: 'r', op: 'Real', input: ['op'], attr: {}},
      {name: 'i', op: 'Imag', input: ['op'], attr: {}}], ['r', 'i']);
  await graph('RFFT', {x: f([2, 8]), l: ic(8)}, [{name: 'op', op: 'RFFT', input: ['x', 'l'], attr: {}},
    {name: 'r', op: 'Real', input: ['op'], attr: {}}, {name: 'i', op: 'Imag', input: ['op'], attr: {}}, {name: 'a', op: 'ComplexAbs', input: ['op'], attr: {}}], ['r', 'i', 'a']);
  await graph('IRFFT', {re: f([2, 5]), im: f([2, 5]), l: ic(8)}, [join, {name: 'op', op: 'IRFFT', input: ['z', 'l'], attr: {}}], ['op']);
  await graph('complex Mul', {...pair, k: f([2, 4])}, [join, {name: 'w', op: 'Complex', input: ['k', 're'], attr: {}},
    {name: 'm', op: 'Mul', input: ['z', 'w'], attr: {T: {type: 'DT_COMPLEX64'}}}, {name: 's', op: 'AddV2', input: ['m', 'z'], attr: {T: {type: 'DT_COMPLEX64'}}},
    {name: 'r', op: 'Real', input: ['s'], attr: {}}, {name: 'i', op: 'Imag', input: ['s'], attr: {}}], ['r', 'i']);
}
