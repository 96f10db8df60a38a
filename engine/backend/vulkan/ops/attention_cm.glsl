/*
 * attention_cm.glsl - attention in blocks, as attention.comp, by cooperative matrices: f16 in, f32 sums. A workgroup has PARTS subgroups of HIGH rows each and COLUMNS
 * columns of values. Its subgroups share what is brought of keys and values, KEYS at a time, and each does all else for its own rows: scores leave as f32 through its
 * own part of shared memory, where lanes cap, bias and mask them and make exponentials as f16, which come back as left matrices. Queries stay in matrices all along.
 *
 * Sums of values stay in matrices, too, and matrices know no rows. So exponentials are relative to a score of the row that was its largest once. Only where a later one
 * is larger by more than LAZY does the sum leave, get scaled and come back: exponentials reach e^LAZY, which f16 holds.
 *
 * SCALAR: plain loops in place of the matrices, as in conv_cm.glsl.
 */
#define HIGH 16u
#define LAZY 8.0

layout(constant_id = 13) const uint SUBGROUP = 32;
layout(local_size_x_id = 14) in; /* PARTS SUBGROUP */
layout(constant_id = 14) const uint INVOCATIONS = 128;
layout(constant_id = 15) const uint CM = 16; /* of a matrix: 8 or 16 */
layout(constant_id = 16) const uint CN = 16;
layout(constant_id = 17) const uint CK = 16;
layout(constant_id = 18) const uint PARTS = 4;
layout(constant_id = 19) const uint KEYS = 64;    /* 32 or 64 */
layout(constant_id = 20) const uint DEPTH = 64;   /* of queries and keys, and columns of values: whole sixteens; what is beyond the edges is 0 */
layout(constant_id = 21) const uint COLUMNS = 64;
layout(constant_id = 22) const uint EIGHTS = 0; /* bits: rows of q 1, k 2, v 4, y 8 are whole eights */
layout(constant_id = 23) const bool ALWAYS = false; /* sums leave whether or not they grow: see attention_cm.c */

/* Shared memory in eights of f16 or fours of f32; one more per row, so that banks take turns. */
const uint WIDE = DEPTH > COLUMNS ? DEPTH : COLUMNS;
const uint PITCH = WIDE / 8u + 1u;   /* [key][depth], then [key][column] */
const uint PITCH_S = KEYS / 4u + 1u; /* scores [row][key]; then a chunk of sums [row][column] */
const uint PITCH_P = KEYS / 8u + 1u; /* a chunk of queries [row][depth]; then exponentials [row][key] */
shared uvec4 room[KEYS * PITCH];
shared uvec4 room_s[PARTS * HIGH * PITCH_S];
shared uvec4 room_p[PARTS * HIGH * PITCH_P];
shared float room_lane[INVOCATIONS]; /* what lanes of a row tell each other */
shared float room_row[PARTS * HIGH]; /* by what a row's sum is scaled */

layout(std430, binding = 0) writeonly buffer Y8 { uvec4 y8[]; };
layout(std430, binding = 1) readonly buffer Q8 { uvec4 q8[]; };
layout(std430, binding = 2) readonly buffer K8 { uvec4 k8[]; };
layout(std430, binding = 3) readonly buffer V8 { uvec4 v8[]; };

/* A lane has `MINE` rows, or a row has ACROSS lanes. */
const uint MINE = SUBGROUP < HIGH ? HIGH / SUBGROUP : 1u;
const uint ACROSS = SUBGROUP > HIGH ? SUBGROUP / HIGH : 1u;

uint part, lane, at_s, at_p; /* of this subgroup, and where its parts begin */
uint row0, rows, shared_head, batch_at, piece;

uvec4 eight_of(float16_t v[8])
{
    return uvec4(packFloat2x16(f16vec2(v[0], v[1])), packFloat2x16(f16vec2(v[2], v[3])),
                 packFloat2x16(f16vec2(v[4], v[5])), packFloat2x16(f16vec2(v[6], v[7])));
}

/* Eight elements of a row from element `from` on; 0 from `size` on. */
#define EIGHT(name, bit, ones, eights)                                                                                 \
    uvec4 name(uint at, uint step, uint from, uint size)                                                               \
    {                                                                                                                  \
        if (from >= size) {                                                                                            \
            return uvec4(0u);                                                                                          \
        }                                                                                                              \
        if ((EIGHTS & bit) != 0u) {                                                                                    \
            return eights[(at + from) / 8u];                                                                           \
        }                                                                                                              \
        float16_t some[8];                                                                                             \
        [[unroll]] for (uint j = 0; j < 8u; j++) {                                                                     \
            bool there = from + j < size;                                                                              \
            some[j] = there ? ones[at + (there ? (from + j) * step : 0u)] : float16_t(0.0);                            \
        }                                                                                                              \
        return eight_of(some);                                                                                         \
    }
EIGHT(q_eight, 1u, q, q8)
EIGHT(k_eight, 2u, k, k8)
EIGHT(v_eight, 4u, v, v8)

uint head_of(uint row)
{
    return shared_head * (p.heads / p.kv_heads) + min(row, rows - 1u) / p.queries;
}

uint query_of(uint row)
{
    return min(row, rows - 1u) % p.queries;
}

#ifdef SCALAR
shared uvec4 room_q[PARTS * HIGH * (DEPTH / 8u)];
vec4 sum[HIGH * COLUMNS / 4u / SUBGROUP]; /* four lane + i SUBGROUP of the subgroup's part */

void part_wait() /* a subgroup of this form is none of the device's */
{
    barrier();
}

void queries_keep(uint chunk)
{
    const uint eights = min(KEYS, DEPTH - chunk) / 8u;
    for (uint i = lane; i < HIGH * eights; i += SUBGROUP) {
        room_q[(part * HIGH + i / eights) * (DEPTH / 8u) + chunk / 8u + i % eights] =
            room_p[at_p + i / eights * PITCH_P + i % eights];
    }
}

float half_at(uvec4 eight, uint i)
{
    return unpackHalf2x16(eight[i / 2u])[i % 2u];
}

void scores_put()
{
    for (uint i = lane; i < HIGH * KEYS / 4u; i += SUBGROUP) {
        uint row = i / (KEYS / 4u), key4 = i % (KEYS / 4u);
        vec4 s = vec4(0.0);
        for (uint d = 0; d < DEPTH; d++) {
            float one = half_at(room_q[(part * HIGH + row) * (DEPTH / 8u) + d / 8u], d % 8u);
            [[unroll]] for (uint j = 0; j < 4u; j++) {
                s[j] += one * half_at(room[(4u * key4 + j) * PITCH + d / 8u], d % 8u);
            }
        }
        room_s[at_s + row * PITCH_S + key4] = floatBitsToUint(s);
    }
}

void sums_clear()
{
    [[unroll]] for (uint i = 0; i < HIGH * COLUMNS / 4u / SUBGROUP; i++) {
        sum[i] = vec4(0.0);
    }
}

void sums_scale(bool grown)
{
    [[unroll]] for (uint i = 0; i < HIGH * COLUMNS / 4u / SUBGROUP; i++) {
        sum[i] *= room_row[part * HIGH + (lane + i * SUBGROUP) / (COLUMNS / 4u)];
    }
}

void values_add()
{
    [[unroll]] for (uint i = 0; i < HIGH * COLUMNS / 4u / SUBGROUP; i++) {
        uint row = (lane + i * SUBGROUP) / (COLUMNS / 4u), c4 = (lane + i * SUBGROUP) % (COLUMNS / 4u);
        for (uint key = 0; key < KEYS; key++) {
            uvec4 eight = room[key * PITCH + c4 / 2u];
            uvec2 four = c4 % 2u == 0u ? eight.xy : eight.zw;
            sum[i] += half_at(room_p[at_p + row * PITCH_P + key / 8u], key % 8u) *
                      vec4(unpackHalf2x16(four.x), unpackHalf2x16(four.y));
        }
    }
}

/* Columns chunk to chunk + KEYS - 1, or as many as there are. */
void sums_put(uint chunk)
{
    [[unroll]] for (uint i = 0; i < HIGH * COLUMNS / 4u / SUBGROUP; i++) {
        uint row = (lane + i * SUBGROUP) / (COLUMNS / 4u), c4 = (lane + i * SUBGROUP) % (COLUMNS / 4u);
        if (c4 / (KEYS / 4u) == chunk / KEYS) {
            room_s[at_s + row * PITCH_S + c4 % (KEYS / 4u)] = floatBitsToUint(sum[i]);
        }
    }
}
#else
#define LEFT  fcoopmatNV<16, gl_ScopeSubgroup, CM, CK>
#define RIGHT fcoopmatNV<16, gl_ScopeSubgroup, CK, CN>
#define SUM   fcoopmatNV<32, gl_ScopeSubgroup, CM, CN>
LEFT queries[HIGH / CM * (DEPTH / CK)];
SUM sum[HIGH / CM * (COLUMNS / CN)];

void part_wait() /* each subgroup reads what it wrote itself */
{
    subgroupBarrier();
}

void queries_keep(uint chunk)
{
    [[unroll]] for (uint k = 0; k < DEPTH / CK; k++) {
        if (k * CK / KEYS == chunk / KEYS) {
            [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
                coopMatLoadNV(queries[m * (DEPTH / CK) + k], room_p, at_p + m * CM * PITCH_P + k * CK % KEYS / 8u, PITCH_P,
                              false);
            }
        }
    }
}

void scores_put()
{
    [[unroll]] for (uint n = 0; n < KEYS / CN; n++) {
        SUM s[HIGH / CM];
        [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
            s[m] = SUM(0.0);
        }
        [[unroll]] for (uint k = 0; k < DEPTH / CK; k++) {
            RIGHT right;
            coopMatLoadNV(right, room, n * CN * PITCH + k * CK / 8u, PITCH, true);
            [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
                s[m] = coopMatMulAddNV(queries[m * (DEPTH / CK) + k], right, s[m]);
            }
        }
        [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
            coopMatStoreNV(s[m], room_s, at_s + m * CM * PITCH_S + n * CN / 4u, PITCH_S, false);
        }
    }
}

void sums_clear()
{
    [[unroll]] for (uint i = 0; i < HIGH / CM * (COLUMNS / CN); i++) {
        sum[i] = SUM(0.0);
    }
}

/* Columns chunk to chunk + KEYS - 1 of the sums, to the subgroup's part of shared memory and from there. */
#define SUMS_MOVE(name, move)                                                                                          \
    void name(uint chunk)                                                                                              \
    {                                                                                                                  \
        [[unroll]] for (uint n = 0; n < COLUMNS / CN; n++) {                                                           \
            if (n * CN / KEYS == chunk / KEYS) {                                                                       \
                [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {                                                      \
                    move(sum[m * (COLUMNS / CN) + n], room_s, at_s + m * CM * PITCH_S + n * CN % KEYS / 4u, PITCH_S,   \
                         false);                                                                                       \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
SUMS_MOVE(sums_put, coopMatStoreNV)
SUMS_MOVE(sums_take, coopMatLoadNV)

/* grown: of this subgroup; the scores have been read. */
void sums_scale(bool grown)
{
    if (!ALWAYS && !grown) {
        return;
    }
    [[unroll]] for (uint chunk = 0; chunk < COLUMNS; chunk += KEYS) {
        sums_put(chunk);
        part_wait();
        for (uint i = lane; i < HIGH * KEYS / 4u; i += SUBGROUP) {
            uint row = i / (KEYS / 4u), at = at_s + row * PITCH_S + i % (KEYS / 4u);
            room_s[at] = floatBitsToUint(uintBitsToFloat(room_s[at]) * room_row[part * HIGH + row]);
        }
        part_wait();
        sums_take(chunk);
        part_wait();
    }
}

void values_add()
{
    [[unroll]] for (uint k = 0; k < KEYS / CK; k++) {
        LEFT left[HIGH / CM];
        [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
            coopMatLoadNV(left[m], room_p, at_p + m * CM * PITCH_P + k * CK / 8u, PITCH_P, false);
        }
        [[unroll]] for (uint n = 0; n < COLUMNS / CN; n++) {
            RIGHT right;
            coopMatLoadNV(right, room, k * CK * PITCH + n * CN / 8u, PITCH, false);
            [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
                sum[m * (COLUMNS / CN) + n] = coopMatMulAddNV(left[m], right, sum[m * (COLUMNS / CN) + n]);
            }
        }
    }
}
#endif

/* Rows of this subgroup, a chunk of the depth at a time, through its part of shared memory. */
void queries_bring()
{
    [[unroll]] for (uint chunk = 0; chunk < DEPTH; chunk += KEYS) {
        const uint eights = min(KEYS, DEPTH - chunk) / 8u;
        for (uint i = lane; i < HIGH * eights; i += SUBGROUP) {
            uint row = row0 + part * HIGH + i / eights;
            uint at = p.q_at + batch_at * p.q_step[0] + head_of(row) * p.q_step[1] + query_of(row) * p.q_step[2];
            room_p[at_p + i / eights * PITCH_P + i % eights] = q_eight(at, p.q_step[3], chunk + i % eights * 8u, p.size);
        }
        part_wait();
        queries_keep(chunk);
        part_wait();
    }
}

void keys_bring(uint key0, uint base)
{
    for (uint i = gl_LocalInvocationID.x; i < KEYS * (DEPTH / 8u); i += INVOCATIONS) {
        uint key = min(key0 + i / (DEPTH / 8u), p.keys - 1u), from = i % (DEPTH / 8u) * 8u;
        room[i / (DEPTH / 8u) * PITCH + i % (DEPTH / 8u)] = k_eight(base + key * p.k_step[2], p.k_step[3], from, p.size);
    }
}

/* Those of keys that do not count are 0: their share is, but they may be anything. */
void values_bring(uint key0, uint base, uint column0, uint valid)
{
    for (uint i = gl_LocalInvocationID.x; i < KEYS * (COLUMNS / 8u); i += INVOCATIONS) {
        uint key = key0 + i / (COLUMNS / 8u), from = column0 + i % (COLUMNS / 8u) * 8u;
        room[i / (COLUMNS / 8u) * PITCH + i % (COLUMNS / 8u)] =
            key < valid ? v_eight(base + key * p.v_step[2], p.v_step[3], from, p.value_size) : uvec4(0u);
    }
}

float top[MINE], total[MINE]; /* of the lane's rows: what exponentials are relative to; their sum over this lane's keys */

uint row_of(uint mine)
{
    return (SUBGROUP < HIGH ? lane + mine * SUBGROUP : lane % HIGH);
}

/* From products to scores, in place; the largest of this lane's. */
float scores_finish(uint mine, uint key0, int valid, int offset)
{
    uint row = row0 + part * HIGH + row_of(mine), h = head_of(row), i = query_of(row);
    float most = -INFINITY;
    for (uint e = lane / HIGH % ACROSS; e < KEYS / 4u; e += ACROSS) {
        uint at = at_s + row_of(mine) * PITCH_S + e;
        vec4 four = uintBitsToFloat(room_s[at]) * p.scale;
        [[unroll]] for (uint j = 0; j < 4u; j++) {
            float capped;
            four[j] = score_of(four[j], batch_at, h, i, key0 + 4u * e + j, valid, int(i) + offset, capped);
            most = larger(most, four[j]);
        }
        room_s[at] = floatBitsToUint(four);
    }
    return most;
}

/* The row's new reference; by what its sum is scaled for it. */
void top_move(uint mine)
{
    float most = -INFINITY, factor = 1.0;
    [[unroll]] for (uint a = 0; a < ACROSS; a++) {
        most = larger(most, room_lane[part * SUBGROUP + (MINE > 1u ? lane : row_of(mine) + a * HIGH)]);
    }
    most = is_nan(top[mine]) ? top[mine] : most;
    if (top[mine] == -INFINITY) { /* nothing has been added yet */
        top[mine] = most;
    } else if (is_nan(most) ? !is_nan(top[mine]) : most > top[mine] + LAZY) {
        factor = exp_f(top[mine] - most);
        top[mine] = most;
    }
    total[mine] *= factor;
    if (lane / HIGH % ACROSS == 0u) {
        room_row[part * HIGH + row_of(mine)] = factor;
    }
}

void shares_make(uint mine)
{
    for (uint e = lane / HIGH % ACROSS; e < KEYS / 8u; e += ACROSS) {
        uint at = at_s + row_of(mine) * PITCH_S + 2u * e;
        vec4 low = uintBitsToFloat(room_s[at]), high = uintBitsToFloat(room_s[at + 1u]);
        [[unroll]] for (uint j = 0; j < 4u; j++) {
            low[j] = low[j] == -INFINITY ? 0.0 : exp_f(low[j] - top[mine]);
            high[j] = high[j] == -INFINITY ? 0.0 : exp_f(high[j] - top[mine]);
            total[mine] += low[j] + high[j];
        }
        f16vec4 l = TO_REAL4(low), h = TO_REAL4(high);
        room_p[at_p + row_of(mine) * PITCH_P + e] =
            uvec4(packFloat2x16(l.xy), packFloat2x16(l.zw), packFloat2x16(h.xy), packFloat2x16(h.zw));
    }
}

/* Scores in shared memory become exponentials; true: a row of the subgroup has a new reference. */
bool softmax_step(uint key0, int valid, int offset)
{
    [[unroll]] for (uint mine = 0; mine < MINE; mine++) {
        room_lane[part * SUBGROUP + lane] = scores_finish(mine, key0, valid, offset);
        part_wait();
        top_move(mine);
        part_wait();
    }
    [[unroll]] for (uint mine = 0; mine < MINE; mine++) {
        shares_make(mine);
    }
    part_wait();
    bool grown = false;
    for (uint row = 0; row < HIGH; row++) {
        grown = grown || room_row[part * HIGH + row] != 1.0;
    }
    return grown;
}

/* What the sums of a row are scaled by when they leave; of a piece it leaves beside them. */
void totals_share(uint column0)
{
    [[unroll]] for (uint mine = 0; mine < MINE; mine++) {
        room_lane[part * SUBGROUP + lane] = total[mine];
        part_wait();
        float all = 0.0;
        [[unroll]] for (uint a = 0; a < ACROSS; a++) {
            all += room_lane[part * SUBGROUP + (MINE > 1u ? lane : row_of(mine) + a * HIGH)];
        }
        if (lane / HIGH % ACROSS == 0u) {
            uint row = row0 + part * HIGH + row_of(mine), at = part_at(piece, row, rows) + p.value_size;
            room_row[part * HIGH + row_of(mine)] =
                PIECES > 1u ? 1.0 : share_of_all(top[mine], all, head_of(row), top[mine] == -INFINITY);
            if (PIECES > 1u && column0 == 0u && row < rows) {
                parts[at] = top[mine];
                parts[at + 1u] = all;
            }
        }
        part_wait();
    }
}

void eight_leave(uint row, uint column, vec4 low, vec4 high)
{
    uint at = batch_at * p.y_step[0] + head_of(row) * p.y_step[1] + query_of(row) * p.y_step[2];
    f16vec4 l = TO_REAL4(low), h = TO_REAL4(high);
    if (PIECES > 1u) {
        uint to = part_at(piece, row, rows);
        [[unroll]] for (uint j = 0; j < 8u; j++) {
            if (column + j < p.value_size) {
                parts[to + column + j] = (j < 4u ? low : high)[j % 4u];
            }
        }
        return;
    }
    if ((EIGHTS & 8u) != 0u) {
        y8[(at + column) / 8u] =
            uvec4(packFloat2x16(l.xy), packFloat2x16(l.zw), packFloat2x16(h.xy), packFloat2x16(h.zw));
        return;
    }
    [[unroll]] for (uint j = 0; j < 8u; j++) {
        if (column + j < p.value_size) {
            y[at + (column + j) * p.y_step[3]] = (j < 4u ? l : h)[j % 4u];
        }
    }
}

void sums_leave(uint column0)
{
    [[unroll]] for (uint chunk = 0; chunk < COLUMNS; chunk += KEYS) {
        const uint eights = min(KEYS, COLUMNS - chunk) / 8u;
        sums_put(chunk);
        part_wait();
        for (uint i = lane; i < HIGH * eights; i += SUBGROUP) {
            uint at = at_s + i / eights * PITCH_S + i % eights * 2u, row = row0 + part * HIGH + i / eights;
            uint column = column0 + chunk + i % eights * 8u;
            float by = room_row[part * HIGH + i / eights];
            if (row < rows && column < p.value_size) {
                eight_leave(row, column, uintBitsToFloat(room_s[at]) * by, uintBitsToFloat(room_s[at + 1u]) * by);
            }
        }
        part_wait();
    }
}

void main()
{
    part = gl_LocalInvocationID.x / SUBGROUP;
    lane = gl_LocalInvocationID.x % SUBGROUP;
    at_s = part * HIGH * PITCH_S;
    at_p = part * HIGH * PITCH_P;
    rows = p.heads / p.kv_heads * p.queries;
    row0 = gl_WorkGroupID.y * PARTS * HIGH;
    batch_at = gl_WorkGroupID.x / p.kv_heads;
    shared_head = gl_WorkGroupID.x - batch_at * p.kv_heads;
    piece = gl_WorkGroupID.z % PIECES;
    uint column0 = gl_WorkGroupID.z / PIECES * COLUMNS;
    int length = LENGTHS != 0u ? int(lengths[batch_at * LENGTH_WORDS]) : 0;
    int offset = p.offset + (LENGTHS == 2u ? length : 0);
    int valid = LENGTHS == 1u ? min(length, int(p.keys)) : int(p.keys);
    uint k_base = p.k_at + batch_at * p.k_step[0] + shared_head * p.k_step[1];
    uint v_base = p.v_at + batch_at * p.v_step[0] + shared_head * p.v_step[1];
    [[unroll]] for (uint mine = 0; mine < MINE; mine++) {
        top[mine] = -INFINITY;
        total[mine] = 0.0;
    }
    sums_clear();
    queries_bring();
    ivec2 seen = keys_of(piece, row0, PARTS * HIGH, rows, valid, offset, int(KEYS));
    for (int block = seen.x; block < seen.y; block += int(KEYS)) {
        barrier(); /* the values of the block before have been read */
        keys_bring(uint(block), k_base);
        barrier();
        scores_put();
        part_wait();
        bool grown = softmax_step(uint(block), valid, offset);
        barrier(); /* all have read the keys */
        values_bring(uint(block), v_base, column0, uint(valid));
        sums_scale(grown);
        barrier();
        values_add();
    }
    barrier();
    totals_share(column0);
    sums_leave(column0);
}
