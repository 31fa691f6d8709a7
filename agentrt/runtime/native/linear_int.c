/* y = W x for 4-bit and 8-bit weights with a scale per 32 of them, activations rounded to integers.
 *
 * Weights: W[n][k] = d[n][k / 32] * q[n][k] + m[n][k / 32], q in 0..15 (q4) or -128..127 (q8,
 * where m = 0).
 * Activations: each row, by itself, in blocks of 32: x ~ s * a, |a| <= top, s = max|x| / top, where
 * top is 32767, or 127 for the q4 product that trades accuracy for speed.
 * A block's sum of q * a is an exact int32 (at most 32 * 128 * 32767 < 2^31). Then, block by block,
 *     y = fma(sum, d * s, y);   y = fma(m, s * sum(a), y)        (the second for q4 only)
 * starting from 0, and last y + bias. That chain is the only rounding, it is the same for every
 * tiling below, and so a row's result does not depend on the other rows, the threads or the tile.
 *
 * Packed weights: panels of 8 channels, [n / 8][k / 32] blocks. A block holds, as 16 pairs of
 * [8 channels][2 values of k], q8: int8 pair by pair; q4: four pairs to 32 bytes, pair g of them in
 * bits [4g, 4g + 4) of 16 little-endian int16; then 8 half d, and for q4 8 half m.
 *
 * A step of a product meets 4 bytes of a row's activations: 2 values of 16 bits or 4 of 8 bits. The
 * nibbles of 32 packed bytes are 4 steps of the first kind, in order, or 2 of the second, whose
 * values then come in the order 0 4 1 5, 2 6 3 7: that is how vi_store8 lays activations out. */
#include "kernels.h"
#include "parallel.h"
#include "simd.h"

typedef enum { Q8 = 0, Q4 = 1, Q4_FAST = 2 } kind; /* the last: activations of 8 bits */

enum { BLOCK = 32, PANEL = 8, STRIP = 16, STEP = 4, VECTOR = 32, MAX_ROWS = 6, TILE_ROWS = 4 };
enum { CACHE_LINE = 64, FEW_ROWS = 8 }; /* more are worth unpacking a strip for */

typedef struct {
    const uint8_t *weights;
    const float *bias; /* may be null */
    const uint8_t *acts;
    const float *scales; /* [rows][blocks][2]: s, s * sum(a) */
    float *out;
    uint8_t *strips; /* a strip's worth of scratch per thread */
    int64_t rows, blocks, channels;
} product;

ALWAYS_INLINE int64_t quant_bytes(kind k) { return k == Q8 ? 256 : 128; }
ALWAYS_INLINE int64_t block_bytes(kind k) { return quant_bytes(k) + (k == Q8 ? 16 : 32); }
ALWAYS_INLINE int64_t act_bytes(kind k) { return k == Q4_FAST ? BLOCK : 2 * BLOCK; }
ALWAYS_INLINE int steps(kind k) { return (int)act_bytes(k) / STEP; }

/* ---- activations ---- */

typedef struct {
    const float *x;
    uint8_t *acts;
    float *scales;
    int64_t blocks;
    kind k;
} quantisation;

static void quantise_block(const float *x, uint8_t *acts, float *scale, kind k) {
    vf v[4];
    vi largest = vi_zero(), sum = vi_zero(), q[4];
    for (int i = 0; i < 4; i++) {
        v[i] = vf_load(x + 8 * i);
        largest = vi_max(largest, vf_magnitude(v[i]));
    }
    /* Compared as bits, so that one NaN makes the scale, and with it the row's outputs, NaN. */
    int32_t bits = vi_hmax(largest);
    float size, top = k == Q4_FAST ? 127.0f : 32767.0f;
    memcpy(&size, &bits, sizeof size);
    float inverse = size < 1e-30f ? 0.0f : top / size; /* smaller ones would overflow it */
    for (int i = 0; i < 4; i++) {
        q[i] = vf_round(vf_mul(v[i], vf_set(inverse)));
        sum = vi_add(sum, q[i]);
    }
    if (k == Q4_FAST) {
        vi_store8((int8_t *)acts, q);
    } else {
        vi_store16((int16_t *)acts, q[0], q[1]);
        vi_store16((int16_t *)acts + 16, q[2], q[3]);
    }
    scale[0] = size < 1e-30f ? 0.0f : size / top;
    scale[1] = scale[0] * (float)vi_hsum(sum);
}

static void quantise_rows(void *task, int worker, int64_t from, int64_t to) {
    const quantisation *t = task;
    (void)worker;
    for (int64_t b = from * t->blocks; b < to * t->blocks; b++)
        quantise_block(t->x + b * BLOCK, t->acts + b * act_bytes(t->k), t->scales + 2 * b, t->k);
}

/* ---- one step, in each kind ---- */

ALWAYS_INLINE vi unpack(const uint8_t *block, int step, kind k) {
    if (k == Q8) return vi_widen((const int8_t *)block + 16 * step);
    if (k == Q4) return vi_nibbles16(vi_load(block + VECTOR * (step / 4)), step % 4);
    return vi_nibbles8(vi_load(block + VECTOR * (step / 2)), step % 2);
}

ALWAYS_INLINE vi dot(vi sum, vi weights, vi acts, kind k) {
    return k == Q4_FAST ? vi_dot8(sum, weights, acts) : vi_dot16(sum, weights, acts);
}

/* 8 products of at most 2 * 15 * 127 fit 16 bits, so the fast kind widens once a block. */
ALWAYS_INLINE vf block_sum(vi sum, kind k) {
    return vf_from_int(k == Q4_FAST ? vi_fold(sum) : sum);
}

ALWAYS_INLINE vf add_block(vf y, vi sum, vf d, vf m, const float *scale, kind k) {
    y = vf_fma(block_sum(sum, k), vf_mul(d, vf_set(scale[0])), y);
    return k == Q8 ? y : vf_fma(m, vf_set(scale[1]), y);
}

ALWAYS_INLINE void store_panel(const product *t, int64_t row, int64_t channel, vf y) {
    if (channel >= t->channels) return;
    int lanes = t->channels - channel < PANEL ? (int)(t->channels - channel) : PANEL;
    if (t->bias) y = vf_add(y, vf_load_n(t->bias + channel, lanes));
    float *out = t->out + row * t->channels + channel;
    if (lanes == PANEL)
        vf_store(out, y);
    else
        vf_store_n(out, y, lanes);
}

/* ---- what comes next, fetched from memory while this is multiplied ---- */

ALWAYS_INLINE void prefetch_panels(const product *t, int64_t first, int count, kind k) {
    int64_t size = t->blocks * block_bytes(k);
    const uint8_t *w = t->weights + first * size;
    if ((first + count) * PANEL > t->channels) return;
    for (int64_t at = 0; at < count * size; at += CACHE_LINE) PREFETCH(w + at);
}

/* ---- few rows: a panel's weights go to registers for tiles of up to 4 rows, used at once ---- */

ALWAYS_INLINE void panel_times_rows(const product *t, int64_t panel, int64_t row, int rows,
                                    kind k) {
    int64_t stride = t->blocks * act_bytes(k);
    const uint8_t *w = t->weights + panel * t->blocks * block_bytes(k);
    const uint8_t *a = t->acts + row * stride;
    const float *s = t->scales + row * t->blocks * 2;
    vf y[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) y[r] = vf_set(0.0f);
    for (int64_t b = 0; b < t->blocks; b++, w += block_bytes(k), s += 2) {
        vi sum[TILE_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++) sum[r] = vi_zero();
        for (int first = 0; first < steps(k); first += 4, a += 4 * STEP) {
            vi q[4];
            UNROLL
            for (int i = 0; i < 4; i++) q[i] = unpack(w, first + i, k);
            UNROLL
            for (int i = 0; i < 4; i++)
                UNROLL
                for (int r = 0; r < rows; r++) {
                    sum[r] = dot(sum[r], q[i], vi_repeat(a + r * stride + i * STEP), k);
                    KEEP(sum[r]);
                }
        }
        const uint16_t *halves = (const uint16_t *)(w + quant_bytes(k));
        vf d = vf_half(halves), m = k == Q8 ? d : vf_half(halves + PANEL);
        UNROLL
        for (int r = 0; r < rows; r++)
            y[r] = add_block(y[r], sum[r], d, m, s + r * t->blocks * 2, k);
    }
    UNROLL
    for (int r = 0; r < rows; r++) store_panel(t, row + r, panel * PANEL, y[r]);
}

/* The panel is read from memory once; its later tiles find it in the first cache. */
ALWAYS_INLINE void panel_times_few(const product *t, int64_t panel, kind k) {
    prefetch_panels(t, panel + 1, 1, k);
    int64_t tiles = (t->rows + TILE_ROWS - 1) / TILE_ROWS;
    int64_t each = (t->rows + tiles - 1) / tiles;
    for (int64_t row = 0; row < t->rows; row += each) {
        switch (t->rows - row < each ? t->rows - row : each) {
        case 1: panel_times_rows(t, panel, row, 1, k); break;
        case 2: panel_times_rows(t, panel, row, 2, k); break;
        case 3: panel_times_rows(t, panel, row, 3, k); break;
        case 4: panel_times_rows(t, panel, row, 4, k); break;
        }
    }
}

/* ---- several rows: a strip of two panels is unpacked once and meets tiles of up to 6 rows ---- */

typedef struct {
    uint8_t *quants; /* [blocks][steps][2 panels][32 bytes] */
    float *scales;   /* [blocks][d, m][2 panels][8] */
} strip;

static int64_t strip_bytes(int64_t blocks, kind k) {
    return blocks * (steps(k) * 2 * VECTOR + 4 * PANEL * 4);
}

ALWAYS_INLINE void unpack_strip(const product *t, int64_t first_panel, strip s, kind k) {
    for (int half = 0; half < 2; half++) {
        const uint8_t *w = t->weights + (first_panel + half) * t->blocks * block_bytes(k);
        uint8_t *q = s.quants + half * VECTOR;
        float *f = s.scales + half * PANEL;
        for (int64_t b = 0; b < t->blocks; b++, w += block_bytes(k), f += 4 * PANEL) {
            for (int i = 0; i < steps(k); i++, q += 2 * VECTOR) vi_store(q, unpack(w, i, k));
            const uint16_t *halves = (const uint16_t *)(w + quant_bytes(k));
            vf_store(f, vf_half(halves));
            if (k != Q8) vf_store(f + 2 * PANEL, vf_half(halves + PANEL));
        }
    }
}

ALWAYS_INLINE void strip_times_rows(const product *t, strip w, int64_t panel, int64_t row, int rows,
                                    kind k) {
    int64_t stride = t->blocks * act_bytes(k);
    const uint8_t *a = t->acts + row * stride, *q = w.quants;
    const float *s = t->scales + row * t->blocks * 2, *f = w.scales;
    vf y[MAX_ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++) y[r][0] = y[r][1] = vf_set(0.0f);
    for (int64_t b = 0; b < t->blocks; b++, s += 2, f += 4 * PANEL) {
        vi sum[MAX_ROWS][2];
        UNROLL
        for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = vi_zero();
        UNROLL_BY_4
        for (int i = 0; i < steps(k); i++, a += STEP, q += 2 * VECTOR) {
            vi q0 = vi_load(q), q1 = vi_load(q + VECTOR);
            KEEP(q0);
            KEEP(q1);
            UNROLL
            for (int r = 0; r < rows; r++) {
                vi x = vi_repeat(a + r * stride);
                sum[r][0] = dot(sum[r][0], q0, x, k);
                sum[r][1] = dot(sum[r][1], q1, x, k);
                KEEP(sum[r][0]);
                KEEP(sum[r][1]);
            }
        }
        UNROLL
        for (int half = 0; half < 2; half++) {
            vf d = vf_load(f + half * PANEL), m = vf_load(f + (2 + half) * PANEL);
            UNROLL
            for (int r = 0; r < rows; r++)
                y[r][half] = add_block(y[r][half], sum[r][half], d, m, s + r * t->blocks * 2, k);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int half = 0; half < 2; half++)
            store_panel(t, row + r, (panel + half) * PANEL, y[r][half]);
}

ALWAYS_INLINE void strip_times_all(const product *t, strip w, int64_t panel, kind k) {
    int64_t row = 0;
    for (; row + 6 <= t->rows; row += 6) strip_times_rows(t, w, panel, row, 6, k);
    switch (t->rows - row) {
    case 1: strip_times_rows(t, w, panel, row, 1, k); break;
    case 2: strip_times_rows(t, w, panel, row, 2, k); break;
    case 3: strip_times_rows(t, w, panel, row, 3, k); break;
    case 4: strip_times_rows(t, w, panel, row, 4, k); break;
    case 5: strip_times_rows(t, w, panel, row, 5, k); break;
    }
}

/* ---- the whole product, split over strips of channels ---- */

ALWAYS_INLINE void multiply(const product *t, int worker, int64_t from, int64_t to, kind k) {
    if (t->rows <= FEW_ROWS) {
        for (int64_t panel = 2 * from; panel < 2 * to; panel++) panel_times_few(t, panel, k);
        return;
    }
    float *scales = (float *)(t->strips + worker * strip_bytes(t->blocks, k));
    strip s = {(uint8_t *)(scales + t->blocks * 4 * PANEL), scales};
    for (int64_t i = from; i < to; i++) {
        unpack_strip(t, 2 * i, s, k);
        prefetch_panels(t, 2 * i + 2, 2, k);
        strip_times_all(t, s, 2 * i, k);
    }
}

static void multiply_q8(void *t, int worker, int64_t from, int64_t to) {
    multiply(t, worker, from, to, Q8);
}

static void multiply_q4(void *t, int worker, int64_t from, int64_t to) {
    multiply(t, worker, from, to, Q4);
}

static void multiply_q4_fast(void *t, int worker, int64_t from, int64_t to) {
    multiply(t, worker, from, to, Q4_FAST);
}

/* Bytes of workspace that `agentrt_linear_int` needs, 64-byte aligned. */
int64_t agentrt_linear_int_workspace(int64_t rows, int64_t inputs, int k, int threads) {
    int64_t blocks = inputs / BLOCK;
    return rows * blocks * (act_bytes(k) + 8) + threads * strip_bytes(blocks, k);
}

void agentrt_linear_int(const void *weights, const float *bias, const float *x, float *out,
                        uint8_t *workspace, int64_t rows, int64_t inputs, int64_t channels, int k,
                        int threads) {
    static range_fn *const by_kind[] = {multiply_q8, multiply_q4, multiply_q4_fast};
    if (rows == 0) return; /* a step from which nothing is chosen */
    int64_t blocks = inputs / BLOCK;
    float *scales = (float *)(workspace + threads * strip_bytes(blocks, k));
    uint8_t *acts = (uint8_t *)(scales + rows * blocks * 2);
    quantisation q = {x, acts, scales, blocks, k};
    int quantisers = threads_for((double)(rows * inputs), threads);
    parallel_for(quantisers, rows, grain_for(rows, quantisers, 1), quantise_rows, &q);

    product t = {weights, bias, acts, scales, out, workspace, rows, blocks, channels};
    int64_t strips = (channels + STRIP - 1) / STRIP;
    threads = threads_for((double)inputs * channels * (rows < 3 ? 1 : rows / 3.0), threads);
    parallel_for(threads, strips, grain_for(strips, threads, 1), by_kind[k], &t);
}

/* ---- rows of the weights themselves, for an embedding that shares them ---- */

typedef struct {
    const uint8_t *weights;
    const int64_t *ids;
    float *out;
    int64_t blocks;
    int is_q4;
} lookup;

static void look_up(void *task, int worker, int64_t from, int64_t to) {
    const lookup *t = task;
    kind k = t->is_q4 ? Q4 : Q8;
    (void)worker;
    for (int64_t i = from; i < to; i++) {
        int64_t panel = t->ids[i] / PANEL, channel = t->ids[i] % PANEL;
        const uint8_t *w = t->weights + panel * t->blocks * block_bytes(k);
        float *out = t->out + i * t->blocks * BLOCK;
        for (int64_t b = 0; b < t->blocks; b++, w += block_bytes(k)) {
            float d[PANEL], m[PANEL] = {0};
            vf_store(d, vf_half((const uint16_t *)(w + quant_bytes(k))));
            if (k == Q4) vf_store(m, vf_half((const uint16_t *)(w + quant_bytes(k)) + PANEL));
            for (int pair = 0; pair < 16; pair++) {
                int16_t q[16];
                vi_store(q, unpack(w, pair, k));
                for (int h = 0; h < 2; h++)
                    *out++ = fmaf(d[channel], (float)q[2 * channel + h], m[channel]);
            }
        }
    }
}

/* out [count][inputs] = rows `ids` of the packed weights, each value rounded once. */
void agentrt_lookup_int(const void *weights, const int64_t *ids, float *out, int64_t count,
                        int64_t inputs, int is_q4, int threads) {
    lookup t = {weights, ids, out, inputs / BLOCK, is_q4};
    threads = threads_for((double)(count * inputs), threads);
    parallel_for(threads, count, grain_for(count, threads, 1), look_up, &t);
}
