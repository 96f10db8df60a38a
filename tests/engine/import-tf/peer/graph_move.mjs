// Shapes, slices, moving data, makers of tensors, sparse and ragged tensors.
export async function moves({op, graph, at, random, Tensor, f, i, b, c, ic, is, fs}) {
  await op('Reshape', [f([2, 6]), ic(3, -1)]);
  await op('Reshape', [f([2, 6]), i([2], [4, 3])], {}, {name: 'computed'});
  await op('Reshape', [f([1]), c(i([0], []))], {}, {name: 'to a scalar'});
  await op('Squeeze', [f([1, 3, 1, 2])], {squeeze_dims: at.ints(0, 2)});
  await op('Squeeze', [f([1, 3, 1, 2])], {axis: at.ints(-2)}, {name: 'axis'});
  await op('Squeeze', [f([1, 3, 1])], {}, {name: 'all'});
  for (const axis of [0, -1, 1]) await op('ExpandDims', [f([2, 3]), is(axis)], {}, {name: `${axis}`});
  await op('Shape', [f([2, 3, 1])]);
  // the peer gives floats here
  await graph('ShapeN', {x: f([2, 3]), y: f([4])}, [{name: 's', op: 'ShapeN', input: ['x', 'y'], attr: {}},
    {name: 'a', op: 'Cast', input: ['s'], attr: {DstT: at.type('DT_INT32')}}, {name: 'b', op: 'Cast', input: ['s:1'], attr: {DstT: at.type('DT_INT32')}}], ['a', 'b']);
  await op('Size', [f([2, 3])]);
  await op('Rank', [f([2, 3, 1])]);
  for (const axis of [0, 1, -1]) await op('Pack', [f([2, 3]), f([2, 3])], {axis: at.i(axis), N: at.i(2)}, {name: `${axis}`});
  await op('Pack', [f([3])], {axis: at.i(0)}, {name: 'one'});
  for (const axis of [0, 1, -1]) await op('Unpack', [f([2, 2, 2])], {axis: at.i(axis), num: at.i(2)}, {outs: 2, name: `${axis}`});
  await op('ConcatV2', [f([2, 1]), f([2, 3]), is(-1)], {N: at.i(2)});
  await op('ConcatV2', [i([1, 2], [1, 2]), i([2, 2], [3, 4, 5, 6]), is(0)], {N: at.i(2)}, {name: 'int32'});
  await op('ConcatV2', [f([2, 1]), is(0)], {N: at.i(1)}, {name: 'one'});
  await op('Concat', [is(0), f([1, 2]), f([2, 2])], {N: at.i(2)});
  await op('Split', [is(1), f([2, 6])], {num_split: at.i(3)}, {outs: 3});
  await op('SplitV', [f([2, 6]), ic(1, 3, 2), is(-1)], {num_split: at.i(3)}, {outs: 3});
  await op('SplitV', [f([2, 6]), ic(1, -1), is(1)], {num_split: at.i(2)}, {outs: 2, name: 'rest'});
  await op('Slice', [f([3, 4]), ic(1, 0), ic(2, -1)]);
  await op('Slice', [f([3, 4]), i([2], [0, 1]), i([2], [-1, 2])], {}, {name: 'computed'});
  const masks = (begin, end, ellipsis, add, shrink) => ({begin_mask: at.i(begin), end_mask: at.i(end), ellipsis_mask: at.i(ellipsis),
    new_axis_mask: at.i(add), shrink_axis_mask: at.i(shrink)});
  for (const [name, shape, from, to, by, ...m] of [
    ['plain', [4, 5], [1, 0], [3, 4], [1, 2], 0, 0, 0, 0, 0], ['negative', [4, 5], [-1, -1], [-4, -6], [-1, -2], 0, 0, 0, 0, 0],
    ['begin', [4, 5], [2, 2], [4, 4], [1, 1], 2, 0, 0, 0, 0], ['end', [4, 5], [2, 2], [3, 3], [1, 1], 0, 1, 0, 0, 0],
    ['reverse open', [4, 5], [0, 0], [0, 0], [-1, -1], 3, 3, 0, 0, 0], ['shrink', [4, 5], [-1, 1], [0, 4], [1, 1], 0, 0, 0, 0, 1],
    ['shrink all', [4, 5], [2, -2], [3, 0], [1, 1], 0, 0, 0, 0, 3], ['new axis', [4, 5], [0, 0, 1], [0, 2, 3], [1, 1, 1], 0, 0, 0, 1, 0],
    ['ellipsis', [2, 3, 4], [0, 1], [0, 3], [1, 1], 0, 0, 1, 0, 0], ['ellipsis between', [2, 3, 2, 4], [1, 0, 1], [2, 0, 3], [1, 1, 1], 0, 0, 2, 0, 1],
    ['ellipsis then new', [2, 3], [0, 0], [0, 0], [1, 1], 0, 0, 1, 2, 0], ['new then shrink', [4, 5], [0, 1, 0], [0, 2, 5], [1, 1, 1], 0, 0, 0, 1, 2],
    ['beyond', [4], [-10], [10], [1], 0, 0, 0, 0, 0], ['fewer', [3, 2, 2], [1], [3], [1], 0, 0, 0, 0, 0]]) {
    await op('StridedSlice', [f(shape), ic(...from), ic(...to), ic(...by)], masks(...m), {name});
    if (['plain', 'shrink', 'end', 'reverse open', 'beyond'].includes(name))
      await op('StridedSlice', [f(shape), i([from.length], from), i([to.length], to), ic(...by)], masks(...m), {name: `${name} computed`});
  }
  await op('Pad', [f([2, 3]), c(i([2, 2], [1, 0, 0, 2]))]);
  await op('Pad', [f([2, 3]), i([2, 2], [1, 0, 0, 2])], {}, {name: 'computed'});
  await op('PadV2', [f([2, 3]), c(i([2, 2], [1, 0, 0, 2])), fs(-1.5)]);
  for (const mode of ['REFLECT', 'SYMMETRIC'])
    await op('MirrorPad', [f([3, 4]), c(i([2, 2], [2, 1, 1, 2]))], {mode: at.s(mode)}, {name: mode});
  await op('Transpose', [f([2, 3, 4]), ic(2, 0, 1)]);
  await op('Gather', [f([4, 2]), i([3], [3, 0, 3])]);
  for (const [name, shape, indices, axis, batch] of [['axis 0', [4, 2], i([2, 2], [3, 0, 1, 2]), 0, 0], ['axis 1', [2, 4, 2], i([3], [3, 0, 3]), 1, 0],
    ['negative', [2, 4], i([2], [1, 3]), -1, 0], ['scalar', [4, 2], i([], [2]), 0, 0], ['batch', [2, 4, 2], i([2, 3], [3, 0, 1, 2, 2, 0]), 1, 1],
    ['batch later', [2, 2, 4], i([2, 2], [3, 0, 1, 2]), 2, 1]])
    await op('GatherV2', [f(shape), indices, is(axis)], {batch_dims: at.i(batch)}, {name});
  await op('GatherV2', [c(i([5], [9, 8, 7, 6, 5])), i([2], [4, 0]), is(0)], {}, {name: 'int32 table'});
  await op('GatherNd', [f([3, 2, 2]), i([2, 2], [2, 0, 0, 1])]);
  await op('ScatterNd', [i([3, 1], [1, 3, 1]), f([3, 2]), ic(4, 2)], {T: at.type('DT_FLOAT')});
  await op('ScatterNd', [i([2, 1], [4, 0]), i([2], [7, 8]), ic(6)], {}, {name: 'int32'});
  await op('TensorScatterUpdate', [f([4, 2]), i([2, 1], [1, 3]), f([2, 2])]);
  await op('Tile', [f([2, 3]), ic(2, 2)]);
  await op('Tile', [f([2, 3]), i([2], [1, 3])], {}, {name: 'computed'});
  await op('Fill', [ic(2, 3), fs(2.5)], {T: at.type('DT_FLOAT')});
  await op('Fill', [i([2], [2, 2]), is(3)], {T: {type: 'DT_INT32'}}, {name: 'computed'});
  await op('BroadcastTo', [f([1, 3]), ic(2, 3)]);
  await op('BroadcastTo', [f([3]), i([3], [2, 2, 3])], {}, {name: 'computed'});
  await op('BroadcastArgs', [i([2], [1, 3]), i([3], [4, 2, 1])]);
  await op('Range', [is(1), is(10), is(3)], {Tidx: at.type('DT_INT32')});
  await op('Range', [i([], [5]), i([], [0]), is(-2)], {Tidx: at.type('DT_INT32')}, {name: 'down'});
  await op('Range', [fs(0.5), fs(2), fs(0.25)], {Tidx: at.type('DT_FLOAT')}, {name: 'float'});
  await op('LinSpace', [fs(-1), fs(2), is(4)]);
  await op('LinSpace', [fs(3), fs(2), is(1)], {}, {name: 'one'});
  await op('ZerosLike', [f([2, 2])]);
  await op('ZerosLike', [i([2], [4, 5])], {}, {name: 'int32'});
  await op('OnesLike', [f([2, 2])]);
  await op('Ones', [ic(2, 3)], {T: at.type('DT_FLOAT')});
  await op('Zeros', [ic(2, 3)], {T: at.type('DT_INT32')});
  await op('OneHot', [i([2, 2], [0, 2, 3, -1]), is(4), fs(1), fs(0)], {axis: at.i(-1), T: at.type('DT_FLOAT')});
  await op('OneHot', [i([3], [0, 2, 1]), is(3), fs(5), fs(-1)], {axis: at.i(-1), T: at.type('DT_FLOAT')}, {name: 'values'});
  await op('OneHot', [i([3], [0, 2, 1]), is(3), is(1), is(0)], {axis: at.i(-1), T: at.type('DT_INT32')}, {name: 'int32'});
  await op('TopKV2', [f([2, 5], [1, 5, 3, 5, 2, -1, -2, 0, -3, 4]), is(3)], {sorted: at.b(true)}, {outs: 2});
  await op('TopKV2', [i([4], [4, 9, 9, 1]), is(2)], {sorted: at.b(true)}, {outs: 2, name: 'int32'});
  await op('Where', [b([2, 3], [1, 0, 0, 1, 1, 0])]);
  await op('Select', [b([2, 3], [1, 0, 0, 1, 1, 0]), f([2, 3]), f([2, 3])], {}, {name: 'whole'});
  await op('SelectV2', [b([3], [1, 0, 1]), f([2, 3]), fs(0)], {T: {type: 'DT_FLOAT'}});
  await op('Unique', [f([6], [3, 1, 3, 2, 1, 7])], {}, {outs: 2});
  await op('UniqueV2', [f([3, 2], [1, 2, 3, 4, 1, 2]), ic(0)], {}, {outs: 2});
  await op('ListDiff', [f([5], [3, 1, 2, 5, 3]), f([2], [1, 5])], {}, {outs: 2});
  await op('ReverseV2', [f([2, 3, 2]), ic(1, -1)]);
  await op('Reverse', [f([2, 3]), c(b([2], [0, 1]))]);
  await op('LowerBound', [f([2, 5], [1, 2, 2, 5, 7, -1, 0, 1, 1, 4]), f([2, 3], [2, 6, 8, 1, -5, 0.5])]);
  await op('UpperBound', [f([2, 5], [1, 2, 2, 5, 7, -1, 0, 1, 1, 4]), f([2, 3], [2, 6, 8, 1, -5, 0.5])]);
  await op('SpaceToBatchND', [f([1, 4, 4, 2]), ic(2, 2), c(i([2, 2], [0, 0, 0, 0]))]);
  await op('SpaceToBatchND', [f([1, 3, 5, 1]), ic(2, 3), c(i([2, 2], [1, 0, 0, 1]))], {}, {name: 'padded'});
  await op('SpaceToBatchND', [f([2, 6, 3]), ic(3), c(i([1, 2], [0, 0]))], {}, {name: 'one axis'});
  await op('BatchToSpaceND', [f([4, 2, 2, 2]), ic(2, 2), c(i([2, 2], [0, 0, 0, 0]))]);
  await op('BatchToSpaceND', [f([6, 2, 2, 1]), ic(2, 3), c(i([2, 2], [1, 0, 0, 1]))], {}, {name: 'cropped'});
  await op('DepthToSpace', [f([1, 2, 2, 8])], {block_size: at.i(2), data_format: at.s('NHWC')});
  await op('SparseToDense', [i([2, 2], [0, 1, 2, 0]), ic(3, 2), f([2]), fs(-1)]);
  await op('SparseToDense', [i([2], [1, 3]), ic(5), fs(2), fs(0)], {}, {name: 'scalar value'});
  await op('SparseToDense', [i([2], [1, 3]), ic(5), f([2]), fs(0)], {}, {name: 'one axis'});
  await op('SparseReshape', [i([3, 2], [0, 1, 1, 0, 2, 2]), ic(3, 4), ic(2, -1)], {}, {outs: 2});
  for (const kind of ['SparseSegmentMean', 'SparseSegmentSum'])
    await op(kind, [f([4, 2]), i([4], [0, 2, 1, 3]), i([4], [0, 0, 1, 1])]);
  await op('SparseFillEmptyRows', [i([3, 2], [0, 1, 2, 0, 2, 2]), f([3]), ic(4, 3), fs(9)], {}, {outs: 4});

  // Labels: strings are looked up to numbers.
  await graph('LookupTableFindV2', {x: i([3], [7, 3, 9]), keys: ic(3, 7), values: c(f([2], [0.5, 2.5])), none: fs(-1)},
    [{name: 'table', op: 'HashTableV2', attr: {key_dtype: at.type('DT_INT32'), value_dtype: at.type('DT_FLOAT')}},
      {name: 'fill', op: 'LookupTableImportV2', input: ['table', 'keys', 'values'], attr: {}},
      {name: 'find', op: 'LookupTableFindV2', input: ['table', 'x', 'none', '^fill'], attr: {}}], ['find']);
  await graph('LookupTableSizeV2', {keys: ic(3, 7), values: c(f([2], [0.5, 2.5])), x: i([], [1])},
    [{name: 'table', op: 'HashTableV2', attr: {key_dtype: at.type('DT_INT32'), value_dtype: at.type('DT_FLOAT')}},
      {name: 'fill', op: 'LookupTableImportV2', input: ['table', 'keys', 'values'], attr: {}},
      {name: 'size', op: 'LookupTableSizeV2', input: ['table', '^fill'], attr: {}}, {name: 'y', op: 'AddV2', input: ['size', 'x'], attr: {T: {type: 'DT_INT32'}}}], ['y']);
}
