/* Causal attention in float32 over K and V read in place, a slot per token.
 *
 * A query row (one head of one token) meets its keys in blocks of 32 positions counted from 0, and
 * keeps the running maximum m, denominator l and output of an online softmax (Milakov and
 * Gimelshein, arXiv:1805.02867). Within a block:
 *     score[j] = a chain of fma over the head's dimensions;   m' = max(m, scores in sight)
 *     w[j] = exp(score[j] - m'), exactly 0 out of sight;      l = fma(l, exp(m - m'), sum of w)
 *     out = out * exp(m - m'), then a chain of fma(w[j], v[j], out) over the keys in sight
 * Nothing there depends on which rows are computed together, where the slots are, how a prompt was
 * cut into chunks or on the thread: so neither do the bits of the result.
 *
 * The unit of work is a tile of tokens, neighbours in the batch, times one KV head. Sequences of a
 * tile that read the same slots in a block read it once, together; where they part, those that
 * still agree go on together: the tile is walked along the tree that its sequences make. */
#include "kernels.h"
#include "parallel.h"
#include "simd.h"

enum { KEYS = 32, LANES = 4, ROWS = 96, GROUP = 3, LINE = 16 /* floats */ };

typedef struct {
    const agentrt_attention_layer *layer;
    const agentrt_attention_batch *batch;
    float *scratch;
    int64_t scratch_floats, heads_at_once, head_parts;
} job;

/* The rows in flight: row r is head first_head + r % heads of token first_token + r / heads. */
typedef struct {
    const agentrt_attention_layer *layer;
    const agentrt_attention_batch *batch;
    int64_t first_token, first_head, kv_head, heads, rows, out_stride;
    float *q;       /* [rows][dim], scaled */
    float *out;     /* [rows][out_stride], a multiple of 8 */
    float *weights; /* [rows][KEYS] */
    float *m, *l;   /* [rows] */
    float *keys;    /* [dim][KEYS], one block transposed */
    int32_t first[ROWS], end[ROWS]; /* the positions that a row sees */
} tile;

typedef struct {
    int from, to; /* the keys of the block that a row sees: [from, to), none if from >= to */
} sight;

/* Where a block's K and V are, and the K of the block after it. Slots lie anywhere, which the
 * processor cannot foresee: V is asked for while K is transposed, the next K while V is added. */
typedef struct {
    const float *k[KEYS], *v[KEYS], *next_k[KEYS];
} block;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static sight sight_of(const tile *t, int64_t row, int64_t base) {
    int64_t from = t->first[row] - base, to = t->end[row] - base;
    sight s = {from < 0 ? 0 : from > KEYS ? KEYS : (int)from, to > KEYS ? KEYS : (int)to};
    return s;
}

static int sees(const tile *t, int64_t row, int64_t base) {
    return t->first[row] < base + KEYS && t->end[row] > base;
}

static int see_the_same(const tile *t, int64_t row, int64_t other, int64_t base) {
    sight a = sight_of(t, row, base), b = sight_of(t, other, base);
    return a.from == b.from && a.to == b.to;
}

/* ---- one block ---- */

/* 8 keys by up to 8 dimensions. */
ALWAYS_INLINE void transpose_square(const float *const rows[8], int64_t d, int lanes, float *out) {
    vf r[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = lanes == 8 ? vf_load(rows[i] + d) : vf_load_n(rows[i] + d, lanes);
    vf_transpose(r);
    UNROLL
    for (int i = 0; i < 8; i++)
        if (i < lanes) vf_store(out + (d + i) * KEYS, r[i]);
}

static void transpose_keys(const tile *t, const block *b) {
    int64_t dim = t->layer->dim;
    for (int group = 0; group < KEYS; group += 8) {
        const float *const *rows = b->k + group;
        int64_t d = 0;
        for (; d + 8 <= dim; d += 8) {
            transpose_square(rows, d, 8, t->keys + group);
            if (d % LINE == 0)
                for (int i = 0; i < 8; i++) PREFETCH(b->v[group + i] + d);
        }
        if (d < dim) transpose_square(rows, d, (int)(dim - d), t->keys + group);
    }
}

ALWAYS_INLINE void score_rows(const tile *t, int64_t row, int rows) {
    int64_t dim = t->layer->dim;
    const float *q = t->q + row * dim, *k = t->keys;
    vf s[GROUP][LANES];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int i = 0; i < LANES; i++) s[r][i] = vf_set(0.0f);
    for (int64_t d = 0; d < dim; d++, k += KEYS) {
        vf x[GROUP];
        UNROLL
        for (int r = 0; r < rows; r++) x[r] = vf_set(q[r * dim + d]);
        UNROLL
        for (int i = 0; i < LANES; i++) {
            vf key = vf_load(k + 8 * i);
            KEEP(key);
            UNROLL
            for (int r = 0; r < rows; r++) {
                s[r][i] = vf_fma(key, x[r], s[r][i]);
                KEEP(s[r][i]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int i = 0; i < LANES; i++) vf_store(t->weights + (row + r) * KEYS + 8 * i, s[r][i]);
}

/* Scores to weights for one row; scales its output so far. */
static void soften_row(const tile *t, int64_t row, sight in) {
    float *w = t->weights + row * KEYS, softcap = t->layer->softcap;
    vf s[LANES];
    for (int i = 0; i < LANES; i++) {
        s[i] = vf_load(w + 8 * i);
        if (softcap > 0.0f)
            s[i] = vf_mul(vf_tanh(vf_div(s[i], vf_set(softcap))), vf_set(softcap));
        if (in.to - in.from < KEYS)
            s[i] = vf_range(s[i], in.from - 8 * i, in.to - 8 * i, -INFINITY);
    }
    vf top = vf_max(vf_max(s[0], s[1]), vf_max(s[2], s[3]));
    float best = vf_hmax(top), m = t->m[row] > best ? t->m[row] : best;
    UNROLL
    for (int i = 0; i < LANES; i++) s[i] = vf_sub(s[i], vf_set(m));
    vf_exp_each(s, LANES);
    UNROLL
    for (int i = 0; i < LANES; i++) vf_store(w + 8 * i, s[i]);
    float sum = vf_hsum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
    if (m == t->m[row]) { /* what there is keeps its scale: times 1 */
        t->l[row] += sum;
        return;
    }
    float keep = exp_of(t->m[row] - m), *out = t->out + row * t->out_stride;
    t->l[row] = fmaf(t->l[row], keep, sum);
    t->m[row] = m;
    for (int64_t d = 0; d < t->out_stride; d += 8)
        vf_store(out + d, vf_mul(vf_load(out + d), vf_set(keep)));
}

/* Adds the keys [from, to) to 8 * lanes dimensions of `rows` rows, the `first` of the block. */
ALWAYS_INLINE void add_values(const tile *t, const block *b, sight in, int64_t row, int rows,
                              int64_t d, int lanes, int first) {
    const float *w = t->weights + row * KEYS;
    float *out = t->out + row * t->out_stride + d;
    vf o[GROUP][LANES];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int i = 0; i < lanes; i++) o[r][i] = vf_load(out + r * t->out_stride + 8 * i);
    for (int j = in.from; j < in.to; j++) {
        const float *value = b->v[j] + d;
        if (first)
            for (int i = 0; i < 8 * lanes; i += LINE) PREFETCH(b->next_k[j] + d + i);
        vf weight[GROUP];
        UNROLL
        for (int r = 0; r < rows; r++) weight[r] = vf_set(w[r * KEYS + j]);
        UNROLL
        for (int i = 0; i < lanes; i++) {
            vf part = vf_load(value + 8 * i);
            KEEP(part);
            UNROLL
            for (int r = 0; r < rows; r++) {
                o[r][i] = vf_fma(weight[r], part, o[r][i]);
                KEEP(o[r][i]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int i = 0; i < lanes; i++) vf_store(out + r * t->out_stride + 8 * i, o[r][i]);
}

/* The last v_dim % 8 dimensions. */
static void add_ragged_values(const tile *t, const block *b, sight in, int64_t row, int64_t d) {
    int lanes = (int)(t->layer->v_dim - d);
    float *out = t->out + row * t->out_stride + d;
    vf o = vf_load(out);
    for (int j = in.from; j < in.to; j++)
        o = vf_fma(vf_set(t->weights[row * KEYS + j]), vf_load_n(b->v[j] + d, lanes), o);
    vf_store(out, o);
}

ALWAYS_INLINE void weigh_rows(const tile *t, const block *b, sight in, int64_t row, int rows,
                              int first) {
    int64_t d = 0, dims = t->layer->v_dim;
    for (; d + 32 <= dims; d += 32) add_values(t, b, in, row, rows, d, 4, first);
    for (; d + 8 <= dims; d += 8) add_values(t, b, in, row, rows, d, 1, 0);
    if (d < dims)
        for (int r = 0; r < rows; r++) add_ragged_values(t, b, in, row + r, d);
}

static const float *key_at(const tile *t, int64_t slot) {
    return t->layer->k + (slot * t->layer->kv_heads + t->kv_head) * t->layer->dim;
}

/* The block at `base` of which `keys` are seen; `end` is that of the keys to come. Beyond either,
 * any slot will do: it is not seen. */
static void find_block(const tile *t, const int32_t *slots, int64_t base, int64_t keys, int64_t end,
                       block *b) {
    const agentrt_attention_layer *a = t->layer;
    for (int64_t j = 0; j < KEYS; j++) {
        int64_t slot = slots[base + (j < keys ? j : keys - 1)], next = base + KEYS + j;
        b->k[j] = key_at(t, slot);
        b->v[j] = a->v + (slot * a->kv_heads + t->kv_head) * a->v_dim;
        b->next_k[j] = key_at(t, slots[next < end ? next : end - 1]);
    }
}

/* Rows [from, to) against the block of keys at positions [base, base + KEYS) of `slots`, of which
 * those before `end` will follow. */
static void attend_block(const tile *t, const int32_t *slots, int64_t base, int64_t end,
                         int64_t from, int64_t to) {
    while (from < to && !sees(t, from, base)) from++;
    while (from < to && !sees(t, to - 1, base)) to--;
    int64_t keys = 0;
    for (int64_t row = from; row < to; row++) {
        int end = sight_of(t, row, base).to;
        keys = end > keys ? end : keys;
    }
    if (from == to) return;

    block b;
    find_block(t, slots, base, keys, end, &b);
    transpose_keys(t, &b);
    int64_t row = from;
    for (; row + GROUP <= to; row += GROUP) score_rows(t, row, GROUP);
    for (; row < to; row++) score_rows(t, row, 1);
    for (row = from; row < to; row++)
        if (sees(t, row, base)) soften_row(t, row, sight_of(t, row, base));
    for (row = from; row < to;) {
        sight in = sight_of(t, row, base);
        int together = row + GROUP <= to && see_the_same(t, row, row + 1, base) &&
                       see_the_same(t, row, row + 2, base);
        if (row == from)
            together ? weigh_rows(t, &b, in, row, GROUP, 1) : weigh_rows(t, &b, in, row, 1, 1);
        else
            together ? weigh_rows(t, &b, in, row, GROUP, 0) : weigh_rows(t, &b, in, row, 1, 0);
        row += together ? GROUP : 1;
    }
}

/* ---- one tile ---- */

static void begin_tile(tile *t) {
    const agentrt_attention_layer *a = t->layer;
    for (int64_t row = 0; row < t->rows; row++) {
        int64_t token = t->first_token + row / t->heads, head = t->first_head + row % t->heads;
        const float *q = a->q + token * a->q_token + head * a->q_head;
        for (int64_t d = 0; d < a->dim; d++) t->q[row * a->dim + d] = q[d] * a->scale;
        t->end[row] = t->batch->visible[token];
        t->first[row] = a->window && t->end[row] > a->window ? t->end[row] - (int32_t)a->window : 0;
        t->m[row] = a->sinks ? a->sinks[head] : -INFINITY;
        t->l[row] = a->sinks ? 1.0f : 0.0f;
    }
    memset(t->out, 0, (size_t)(t->rows * t->out_stride) * sizeof(float));
}

static void end_tile(const tile *t) {
    const agentrt_attention_layer *a = t->layer;
    for (int64_t row = 0; row < t->rows; row++) {
        int64_t token = t->first_token + row / t->heads, head = t->first_head + row % t->heads;
        float *out = a->out + (token * a->heads + head) * a->v_dim;
        float share = 1.0f / t->l[row];
        for (int64_t d = 0; d < a->v_dim; d++) out[d] = t->out[row * t->out_stride + d] * share;
    }
}

static int64_t after_sequence(const agentrt_attention_batch *b, int64_t token, int64_t last) {
    int64_t next = token + 1;
    while (next < last && b->sequence[next] == b->sequence[token]) next++;
    return next;
}

/* Tokens [first, last) from position `base` on, before which they read the same slots. */
static void attend_from(const tile *t, int64_t first, int64_t last, int64_t base) {
    const agentrt_attention_batch *b = t->batch;
    while (first < last) {
        const int32_t *slots = b->slots + b->kv_start[b->sequence[first]];
        int64_t next = after_sequence(b, first, last), end = b->visible[next - 1];
        if (base >= end) { /* no more of this one */
            first = next;
            continue;
        }
        int64_t together = next;
        while (together < last) {
            const int32_t *others = b->slots + b->kv_start[b->sequence[together]];
            int64_t after = after_sequence(b, together, last);
            if (base + KEYS > end || base + KEYS > b->visible[after - 1]) break;
            if (memcmp(slots + base, others + base, KEYS * sizeof *slots)) break;
            together = after;
        }
        if (together < last) {
            attend_from(t, first, together, base);
            first = together;
        } else {
            int64_t row = (first - t->first_token) * t->heads;
            attend_block(t, slots, base, end, row, row + (last - first) * t->heads);
            base += KEYS;
        }
    }
}

static void attend(void *shared, int worker, int64_t from, int64_t to) {
    const job *j = shared;
    const agentrt_attention_layer *a = j->layer;
    int64_t heads_each = a->heads / a->kv_heads;
    for (int64_t i = from; i < to; i++) {
        int64_t part = i % j->head_parts, kv_head = i / j->head_parts % a->kv_heads;
        const int32_t *bounds = j->batch->tiles + i / j->head_parts / a->kv_heads * 2;
        int64_t first = part * j->heads_at_once, left = heads_each - first;
        tile t = {.layer = a, .batch = j->batch, .first_token = bounds[0], .kv_head = kv_head};
        t.heads = left < j->heads_at_once ? left : j->heads_at_once;
        t.first_head = kv_head * heads_each + first;
        t.rows = (bounds[1] - bounds[0]) * t.heads;
        t.out_stride = round_up(a->v_dim, 8);
        t.keys = j->scratch + worker * j->scratch_floats;
        t.weights = t.keys + a->dim * KEYS;
        t.out = t.weights + ROWS * KEYS;
        t.q = t.out + ROWS * t.out_stride;
        t.m = t.q + ROWS * a->dim;
        t.l = t.m + ROWS;
        begin_tile(&t);
        attend_from(&t, bounds[0], bounds[1], 0);
        end_tile(&t);
    }
}

/* ---- the whole batch ---- */

/* The most query rows (tokens times heads of one KV head) that a tile may have. */
int64_t agentrt_attention_rows(void) { return ROWS; }

/* Floats of scratch that `agentrt_attention` needs for each thread: a multiple of a cache line, so
 * that no two threads write the same one. */
int64_t agentrt_attention_scratch(int64_t dim, int64_t v_dim) {
    return round_up(dim * KEYS + ROWS * (KEYS + dim + round_up(v_dim, 8) + 2), 16);
}

void agentrt_attention(agentrt_attention_layer *layer, const agentrt_attention_batch *batch,
                       const float *q, int64_t q_token, int64_t q_head, const float *sinks,
                       float *out, float *scratch, int threads) {
    layer->q = q, layer->q_token = q_token, layer->q_head = q_head;
    layer->sinks = sinks, layer->out = out;
    int64_t heads_each = layer->heads / layer->kv_heads;
    job j = {layer, batch, scratch, agentrt_attention_scratch(layer->dim, layer->v_dim), 0, 0};
    j.heads_at_once = heads_each < ROWS ? heads_each : ROWS;
    j.head_parts = (heads_each + ROWS - 1) / ROWS;
    int64_t units = batch->num_tiles * layer->kv_heads * j.head_parts;
    double work = (double)batch->num_visible * layer->heads * (layer->dim + layer->v_dim);
    parallel_for(threads_for(work, threads), units, 1, attend, &j);
}

void agentrt_store(float *pool, const agentrt_attention_batch *batch, const float *rows,
                   int64_t tokens, int64_t heads, int64_t dim, int64_t token_stride,
                   int64_t head_stride) {
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(pool + (batch->out_slots[t] * heads + h) * dim,
                   rows + t * token_stride + h * head_stride, (size_t)dim * sizeof(float));
}
