// Control flow of both kinds, functions, lists and arrays of tensors.
export async function flows({op, graph, at, random, f, i, b, c, ic, is, fs}) {
  const n = (name, kind, input = [], attr = {}) => ({name, op: kind, input, attr});
  const F = {type: 'DT_FLOAT'}, I = {type: 'DT_INT32'};

  // x > 1 ? x * 2 : x - 3 as Switch and Merge.
  for (const value of [3, -1])
    await graph(`Switch Merge ${value}`, {x: f([], [value]), one: fs(1), two: fs(2), three: fs(3)}, [
      n('p', 'Greater', ['x', 'one'], {T: F}), n('s', 'Switch', ['x', 'p'], {T: F}),
      n('yes', 'Mul', ['s:1', 'two'], {T: F}), n('no', 'Sub', ['s', 'three'], {T: F}),
      n('m', 'Merge', ['no', 'yes'], {T: F, N: at.i(2)})], ['m']);
  // Captured constants pass a Switch of their own, and the branches share it.
  await graph('Switch Merge capture', {x: f([3], [1, -2, 3]), p: b([], [0]), two: fs(2)}, [
    n('s', 'Switch', ['x', 'p'], {T: F}), n('t', 'Switch', ['two', 'p'], {T: F}),
    n('yes', 'Mul', ['s:1', 't:1'], {T: F}), n('no', 'Sub', ['s:0', 't:0'], {T: F}), n('neg', 'Neg', ['no'], {T: F}),
    n('m', 'Merge', ['neg', 'yes'], {T: F, N: at.i(2)}), n('y', 'AddV2', ['m', 'x'], {T: F})], ['y']);

  const enter = (name, from, constant = false) => n(name, 'Enter', [from], {T: F, frame_name: at.s('w'), is_constant: at.b(constant), parallel_iterations: at.i(10)});
  // for (i = 0; i < count; i++) x = x * f + i
  for (const count of [0, 1, 4])
    await graph(`while frame ${count}`, {x: f([2], [1, -1]), zero: is(0), count: i([], [count]), one: is(1), k: fs(0.5)}, [
      enter('ei', 'zero'), enter('ex', 'x'), enter('en', 'count', true), enter('ek', 'k', true), enter('eo', 'one', true),
      n('mi', 'Merge', ['ei', 'ni'], {T: I, N: at.i(2)}), n('mx', 'Merge', ['ex', 'nx'], {T: F, N: at.i(2)}),
      n('less', 'Less', ['mi', 'en'], {T: I}), n('cond', 'LoopCond', ['less']),
      n('si', 'Switch', ['mi', 'cond'], {T: I}), n('sx', 'Switch', ['mx', 'cond'], {T: F}),
      n('bi', 'Identity', ['si:1'], {T: I}), n('bx', 'Identity', ['sx:1'], {T: F}),
      n('inc', 'AddV2', ['bi', 'eo'], {T: I}), n('fi', 'Cast', ['bi'], {SrcT: I, DstT: F}),
      n('mul', 'Mul', ['bx', 'ek'], {T: F}), n('sum', 'AddV2', ['mul', 'fi'], {T: F}),
      n('ni', 'NextIteration', ['inc'], {T: I}), n('nx', 'NextIteration', ['sum'], {T: F}),
      n('xi', 'Exit', ['si'], {T: I}), n('xx', 'Exit', ['sx'], {T: F}), n('y', 'Square', ['xx'], {T: F})], ['y', 'xi']);
  // A frame within a frame: for (i < 2) for (j < 3) x += i + j
  const inner = (name, from, constant = false) => n(name, 'Enter', [from], {T: F, frame_name: at.s('inner'), is_constant: at.b(constant)});
  await graph('nested frames', {x: f([], [1]), zero: is(0), one: is(1), two: is(2), three: is(3)}, [
    enter('ei', 'zero'), enter('ex', 'x'), enter('et', 'two', true), enter('eo', 'one', true), enter('ez', 'zero', true), enter('e3', 'three', true),
    n('mi', 'Merge', ['ei', 'ni'], {T: I}), n('mx', 'Merge', ['ex', 'nx'], {T: F}), n('li', 'Less', ['mi', 'et'], {T: I}), n('ci', 'LoopCond', ['li']),
    n('si', 'Switch', ['mi', 'ci'], {T: I}), n('sx', 'Switch', ['mx', 'ci'], {T: F}),
    inner('fj', 'ez'), inner('fx', 'sx:1'), inner('fi', 'si:1', true), inner('fo', 'eo', true), inner('f3', 'e3', true),
    n('mj', 'Merge', ['fj', 'nj'], {T: I}), n('my', 'Merge', ['fx', 'ny'], {T: F}), n('lj', 'Less', ['mj', 'f3'], {T: I}), n('cj', 'LoopCond', ['lj']),
    n('sj', 'Switch', ['mj', 'cj'], {T: I}), n('sy', 'Switch', ['my', 'cj'], {T: F}),
    n('ij', 'AddV2', ['sj:1', 'fi'], {T: I}), n('ijf', 'Cast', ['ij'], {SrcT: I, DstT: F}), n('yy', 'AddV2', ['sy:1', 'ijf'], {T: F}),
    n('jj', 'AddV2', ['sj:1', 'fo'], {T: I}), n('nj', 'NextIteration', ['jj'], {T: I}), n('ny', 'NextIteration', ['yy'], {T: F}), n('xy', 'Exit', ['sy'], {T: F}),
    n('ii', 'AddV2', ['si:1', 'eo'], {T: I}), n('ni', 'NextIteration', ['ii'], {T: I}), n('nx', 'NextIteration', ['xy'], {T: F}), n('xx', 'Exit', ['sx'], {T: F})], ['xx'], {answer: [f([], [10])]});
  // Arrays: the squares of x's rows, and their sum over the steps.
  await graph('TensorArrayV3 in a frame', {x: f([3, 2]), zero: is(0), one: is(1), three: is(3), range: ic(0, 1, 2), nought: c(f([2], [0, 0]))}, [
    n('in', 'TensorArrayV3', ['three'], {dtype: F, element_shape: at.shape(2), dynamic_size: at.b(false), clear_after_read: at.b(false), identical_element_shapes: at.b(true), tensor_array_name: at.s('in')}),
    n('put', 'TensorArrayScatterV3', ['in', 'range', 'x', 'in:1'], {T: F}),
    n('out', 'TensorArrayV3', ['three'], {dtype: F, element_shape: at.shape(2), dynamic_size: at.b(false), clear_after_read: at.b(false), identical_element_shapes: at.b(true), tensor_array_name: at.s('out')}),
    enter('ei', 'zero'), enter('ea', 'out:1'), enter('es', 'nought'), enter('en', 'three', true), enter('eo', 'one', true), enter('ein', 'in', true), enter('epf', 'put', true), enter('eout', 'out', true),
    n('mi', 'Merge', ['ei', 'ni'], {T: I}), n('ma', 'Merge', ['ea', 'na'], {T: F}), n('ms', 'Merge', ['es', 'ns'], {T: F}),
    n('less', 'Less', ['mi', 'en'], {T: I}), n('cond', 'LoopCond', ['less']),
    n('si', 'Switch', ['mi', 'cond'], {T: I}), n('sa', 'Switch', ['ma', 'cond'], {T: F}), n('ss', 'Switch', ['ms', 'cond'], {T: F}),
    n('read', 'TensorArrayReadV3', ['ein', 'si:1', 'epf'], {dtype: F}), n('sq', 'Square', ['read'], {T: F}), n('sum', 'AddV2', ['ss:1', 'sq'], {T: F}),
    n('write', 'TensorArrayWriteV3', ['eout', 'si:1', 'sq', 'sa:1'], {T: F}), n('inc', 'AddV2', ['si:1', 'eo'], {T: I}),
    n('ni', 'NextIteration', ['inc'], {T: I}), n('na', 'NextIteration', ['write'], {T: F}), n('ns', 'NextIteration', ['sum'], {T: F}),
    n('xa', 'Exit', ['sa'], {T: F}), n('xs', 'Exit', ['ss'], {T: F}),
    n('size', 'TensorArraySizeV3', ['out', 'xa'], {}),
    n('gather', 'TensorArrayGatherV3', ['out', 'range', 'xa'], {dtype: F, element_shape: at.shape(2)})], ['gather', 'xs', 'size']);
  await graph('TensorArraySplitV3', {x: f([5, 2]), three: is(2), lengths: ic(2, 3), one: is(1)}, [
    n('a', 'TensorArrayV3', ['three'], {dtype: F, element_shape: at.shape(-1, 2), dynamic_size: at.b(false), clear_after_read: at.b(false), identical_element_shapes: at.b(false), tensor_array_name: at.s('a')}),
    n('s', 'TensorArraySplitV3', ['a', 'x', 'lengths', 'a:1'], {T: F}), n('r', 'TensorArrayReadV3', ['a', 'one', 's'], {dtype: F}),
    n('cat', 'TensorArrayConcatV3', ['a', 's'], {dtype: F})], ['r', 'cat']);

  const fn = (name, ins, outs, nodeDef, ret) => ({
    signature: {name, inputArg: ins.map(([key, type]) => ({name: key, type})), outputArg: outs.map(([key, type]) => ({name: key, type}))}, nodeDef, ret});
  const body = fn('body', [['i', 'DT_INT32'], ['x', 'DT_FLOAT']], [['oi', 'DT_INT32'], ['ox', 'DT_FLOAT']],
    [n('one', 'Const', [], {dtype: I, value: {}}), n('a', 'AddV2', ['i', 'one:output:0'], {T: I}), n('c', 'Cast', ['a:z:0'], {SrcT: I, DstT: F}), n('m', 'Mul', ['x', 'c:y:0'], {T: F})],
    {oi: 'a:z:0', ox: 'm:z:0'});
  const cond = fn('cond', [['i', 'DT_INT32'], ['x', 'DT_FLOAT']], [['go', 'DT_BOOL']],
    [n('four', 'Const', [], {dtype: I, value: {}}), n('l', 'Less', ['i', 'four:output:0'], {T: I})], {go: 'l:z:0'});
  const weights = [['one', is(1)], ['four', is(4)]];
  for (const kind of ['While', 'StatelessWhile'])
    await graph(kind, {x: f([2]), zero: is(0)}, [n('w', kind, ['zero', 'x'], {cond: at.fn('cond'), body: at.fn('body'), T: at.types('DT_INT32', 'DT_FLOAT')}),
      n('y', 'Identity', ['w:1'], {T: F})], ['y'], {functions: [cond, body], weights});
  const yes = fn('yes', [['x', 'DT_FLOAT'], ['k', 'DT_FLOAT']], [['o', 'DT_FLOAT']], [n('m', 'Mul', ['x', 'k'], {T: F})], {o: 'm:z:0'});
  const no = fn('no', [['x', 'DT_FLOAT'], ['k', 'DT_FLOAT']], [['o', 'DT_FLOAT']], [n('m', 'Sub', ['x', 'k'], {T: F}), n('e', 'Exp', ['m:z:0'], {T: F})], {o: 'e:y:0'});
  for (const kind of ['If', 'StatelessIf'])
    for (const p of [0, 1])
      await graph(`${kind} ${p}`, {p: b([], [p]), x: f([3]), k: fs(0.5)}, [n('y', kind, ['p', 'x', 'k'], {then_branch: at.fn('yes'), else_branch: at.fn('no')})],
        ['y'], {functions: [yes, no]});
  await graph('StatelessWhile around an If', {x: f([2]), zero: is(0)}, [n('w', 'StatelessWhile', ['zero', 'x'], {cond: at.fn('cond'), body: at.fn('odd'), T: at.types('DT_INT32', 'DT_FLOAT')}),
    n('y', 'Identity', ['w:1'], {T: F})], ['y'], {functions: [cond, yes, no,
    fn('odd', [['i', 'DT_INT32'], ['x', 'DT_FLOAT']], [['oi', 'DT_INT32'], ['ox', 'DT_FLOAT']],
      [n('one', 'Const', [], {dtype: I, value: {}}), n('a', 'AddV2', ['i', 'one:output:0'], {T: I}), n('c', 'Cast', ['a:z:0'], {SrcT: I, DstT: F}), n('t', 'Const', [], {dtype: I, value: {}}), n('b', 'FloorMod', ['i', 't:output:0'], {T: I}),
        n('p', 'Cast', ['b:z:0'], {SrcT: I, DstT: {type: 'DT_BOOL'}}), n('f', 'StatelessIf', ['p:y:0', 'x', 'c:y:0'], {then_branch: at.fn('yes'), else_branch: at.fn('no')})],
      {oi: 'a:z:0', ox: 'f:output:0'})], weights: [...weights, ['t', is(2)]]});

  // Lists.
  const list = (name, input, kind, more = {}) => n(name, kind, input, {element_dtype: F, ...more});
  await graph('TensorListFromTensor', {x: f([3, 2]), shape: ic(2), one: is(1), k: fs(2)}, [list('l', ['x', 'shape'], 'TensorListFromTensor'),
    list('g', ['l', 'one', 'shape'], 'TensorListGetItem'), n('m', 'Mul', ['g', 'k'], {T: F}), list('s', ['l', 'one', 'm'], 'TensorListSetItem'),
    list('y', ['s', 'shape'], 'TensorListStack', {num_elements: at.i(3)}), n('n', 'TensorListLength', ['l'])], ['y', 'n']);
  await graph('TensorListReserve', {x: f([2]), shape: ic(2), one: is(1), zero: is(0), two: is(2)}, [list('l', ['shape', 'two'], 'TensorListReserve'),
    list('s', ['l', 'zero', 'x'], 'TensorListSetItem'), n('neg', 'Neg', ['x'], {T: F}), list('t', ['s', 'one', 'neg'], 'TensorListSetItem'),
    list('y', ['t', 'shape'], 'TensorListStack', {num_elements: at.i(2)})], ['y']);
  await graph('EmptyTensorList', {x: f([2]), shape: ic(2), max: is(-1)}, [list('l', ['shape', 'max'], 'EmptyTensorList'), list('a', ['l', 'x'], 'TensorListPushBack'),
    n('neg', 'Neg', ['x'], {T: F}), list('b', ['a', 'neg'], 'TensorListPushBack'), list('y', ['b', 'shape'], 'TensorListStack', {num_elements: at.i(-1)})], ['y']);
  await graph('TensorListGather', {x: f([4, 2]), shape: ic(2), at: ic(3, 0)}, [list('l', ['x', 'shape'], 'TensorListFromTensor'), list('y', ['l', 'at', 'shape'], 'TensorListGather')], ['y']);
  await graph('TensorListScatterV2', {x: f([3, 2]), shape: ic(2), at: ic(2, 0, 1), three: is(3)}, [list('l', ['x', 'at', 'shape', 'three'], 'TensorListScatterV2'),
    list('y', ['l', 'shape'], 'TensorListStack', {num_elements: at.i(3)})], ['y']);
  await graph('TensorListScatter', {x: f([3, 2]), shape: ic(2), at: ic(2, 0, 1)}, [list('l', ['x', 'at', 'shape'], 'TensorListScatter'),
    list('y', ['l', 'shape'], 'TensorListStack', {num_elements: at.i(3)})], ['y']);
  const rows = f([5, 2]);
  await graph('TensorListSplit', {x: rows, shape: ic(2), lengths: ic(2, 3), one: is(1)}, [list('l', ['x', 'shape', 'lengths'], 'TensorListSplit'),
    list('y', ['l', 'one', 'shape'], 'TensorListGetItem')], ['y'], {answer: [f([3, 2], rows.values.slice(4))]});
  await graph('TensorListConcat', {x: f([3, 2, 2]), shape: ic(2, 2)}, [list('l', ['x', 'shape'], 'TensorListFromTensor'),
    list('y', ['l'], 'TensorListConcat', {element_shape: at.shape(2, 2)})], ['y']);
  await graph('TensorListConcatV2', {x: f([3, 2, 2]), shape: ic(2, 2)}, [list('l', ['x', 'shape'], 'TensorListFromTensor'),
    list('y', ['l', 'shape'], 'TensorListConcatV2', {element_shape: at.shape(2, 2)})], ['y']);
  await graph('TensorListResize', {x: f([3, 2]), shape: ic(2), two: is(2)}, [list('l', ['x', 'shape'], 'TensorListFromTensor'), n('r', 'TensorListResize', ['l', 'two']),
    list('y', ['r', 'shape'], 'TensorListStack', {num_elements: at.i(2)})], ['y']);

  // Functions called in place (the peer has none), and references of all forms.
  for (const kind of ['PartitionedCall', 'StatefulPartitionedCall'])
    await graph(kind, {x: f([3], [1, -2, 0.5]), k: fs(0.5)}, [n('y', kind, ['x', 'k'], {f: at.fn('yes')})], ['y'], {functions: [yes], answer: [f([3], [0.5, -1, 0.25])]});
  await graph('TensorListPopBack', {x: f([2, 2], [1, 2, 3, 4]), shape: ic(2)}, [list('l', ['x', 'shape'], 'TensorListFromTensor'), list('p', ['l', 'shape'], 'TensorListPopBack'),
    list('y', ['p', 'shape'], 'TensorListStack', {num_elements: at.i(1)}), n('z', 'Neg', ['p:1'], {T: F})], ['y', 'z'], {answer: [f([1, 2], [1, 2]), f([2], [-3, -4])]});
  await graph('references', {x: f([2, 4])}, [n('s', 'Split', ['zero', 'x'], {num_split: at.i(2), T: F}), n('zero', 'Const', [], {dtype: I}),
    n('y', 'Sub', ['s:1', 's:0', '^s'], {T: F})], ['y', 's:1'], {weights: [['zero', is(0)]]});
}
