// Operators on texts, whose results are hashed to numbers, and random operators with a seed.
const hash = (at, name, input) => ({name, op: 'StringToHashBucketFast', input: [input], attr: {num_buckets: at.i(2147483647)}});
const LONG = 'The quick brown fox jumps over the lazy dog. ';
const WORDS = ['the quick brown fox', 'jumps  over', 'lazy, dogs', '', ' a', 'Ω ≈ ç'];

// One operator on texts: `outs` of its results are texts to be hashed, the others numbers. x is there because a model has an input.
async function one({f, at, graph}, name, kind, tensors, attr, outs) {
  const nodes = [{name: 'op', op: kind, input: Object.keys(tensors), attr}], ends = ['x'];
  outs.forEach((is_text, k) => {
    const reference = k ? `op:${k}` : 'op';
    if (is_text) nodes.push(hash(at, `h${k}`, reference));
    ends.push(is_text ? `h${k}` : reference);
  });
  await graph(`${kind} ${name}`, {x: f([1]), ...tensors}, nodes, ends);
}

export async function words(kit) {
  const {Tensor, c, ic, at} = kit;
  const texts = (...values) => c(new Tensor('string', [values.length], values)), text = value => c(new Tensor('string', [], [value]));
  for (const size of [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 200, 300])
    await one(kit, `of ${size} bytes`, 'StringToHashBucketFast', {t: texts((LONG.repeat(9) + '').slice(0, size), LONG.repeat(9).slice(5, 5 + size))}, {num_buckets: at.i(1000000007)}, [false]);
  for (const [name, delimiter, skip] of [['skip', ' ', true], ['all', ' ', false], ['several', ' ,', true], ['bytes', '', true]])
    await one(kit, name, 'StringSplit', {t: texts(...WORDS), d: text(delimiter)}, {skip_empty: at.b(skip)}, [false, true, false]);
  for (const [name, pattern, rewrite, global] of [['vowels', '[aeiou]+', '#', true], ['first', '[aeiou]', '', false], ['space', '\\s+', '_', true], ['digit', '\\d', 'n', true],
    ['ends', 's$', 'z', true], ['or', 'fox|dogs', 'cat', true]])
    await one(kit, name, 'StaticRegexReplace', {t: texts(...WORDS, 'r2d2 c3p0')}, {pattern: at.s(pattern), rewrite: at.s(rewrite), replace_global: at.b(global)}, [true]);
  for (const [name, widths, pad, width, short] of [['two', [2], '', 0, false], ['two and three', [2, 3], '|', 1, false], ['full', [3], '<>', -1, false], ['short', [4], '', 0, true],
    ['one', [1], '', 0, false], ['wide pad', [2, 4], '~', 2, true]])
    await one(kit, name, 'StringNGrams', {t: texts('a', 'bb', 'c', 'dd', 'e', 'f'), s: ic(0, 3, 3, 4, 6)}, {separator: at.s('_'), ngram_widths: at.ints(...widths), left_pad: at.s(pad),
      right_pad: at.s(pad), pad_width: at.i(width), preserve_short_sequences: at.b(short)}, [true, false]);
}

export async function draws({f, ic, is, at, op}) {
  for (const seed of [1, 42, 123456789]) {
    await op('RandomStandardNormal', [ic(5, 7)], {dtype: at.type('DT_FLOAT'), seed: at.i(seed)}, {name: `seed ${seed}`});
    await op('TruncatedNormal', [ic(6, 9)], {dtype: at.type('DT_FLOAT'), seed: at.i(seed)}, {name: `seed ${seed}`});
    await op('RandomUniformInt', [ic(4, 5)], {minval: at.i(-7), maxval: at.i(90), seed: at.i(seed)}, {name: `seed ${seed}`});
    await op('Multinomial', [f([3, 5]), is(20)], {seed: at.i(seed)}, {name: `seed ${seed}`});
  }
}
