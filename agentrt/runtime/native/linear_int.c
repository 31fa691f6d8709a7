/* y = W x for 4-bit and 8-bit weights with a scale per 32 of them, activations rounded to integers.
 *
 * Weights: W[n][k] = d[n][k / 32] * q[n][k] + m[n][k / 32], q in 0..15 (q4) or -128..127 (q8,
 * where m = 0).
 * Activations are those of activations.h: x ~ s * a, or x ~ s * (c + f / 254), by blocks of 32.
 * A block's sums of q * a, or q * c and q * f, are exact int32 (at most 32 * 128 * 32767 < 2^31).
 * Then, block by block,
 *     y = fma(sum, d * s, y);   y = fma(m, s * sum(a), y);   y = fma(fine, d / 254 * s, y)
 * (the second for q4 only, the third where a row of the tile has fine bytes; to the others it adds
 * 0) starting from 0, and last y + bias. That chain is the only rounding, it is the same for every
 * tiling below, and so a row's result does not depend on the other rows, the threads or the tile.
 *
 * Packed weights: panels of 8 channels, [n / 8][k / 32] blocks. A block holds, as 16 pairs of
 * [8 channels][2 values of k], q8: int8 pair by pair; q4: four pairs to 32 bytes, pair g of them in
 * bits [4g, 4g + 4) of 16 little-endian int16; then 8 half d, and for q4 8 half m.
 *
 * A step of a product meets 4 bytes of a row's activations: 2 values of 16 bits or 4 of 8 bits. The
 * nibbles of 32 packed bytes are 4 steps of the first kind, in order, or 2 of the second, whose
 * values then come in the order 0 4 1 5, 2 6 3 7: that is how vi_store8 lays activations out. */
#include "activations.h"
#include "kernels.h"
#include "parallel.h"

enum { PANEL = 8, STRIP = 16, STEP = 4, VECTOR = 32, MAX_ROWS = 6, TILE_ROWS = 4 };
enum { FEW_ROWS = 12 }; /* more are worth unpacking a strip for */
enum { CACHE_LINE = 64, AHEAD = 2048 }; /* bytes between what is multiplied and what is fetched */

typedef struct {
    const uint8_t *weights;
    const float *bias; /* may be null */
    activations in;
    float *out; /* [rows][channels] */
    uint8_t *strips; /* a strip's worth of scratch per thread */
    int64_t tile, channels; /* tile: rows at a time */
} product;

ALWAYS_INLINE int64_t quant_bytes(kind k) { return k == Q8 ? 256 : 128; }
ALWAYS_INLINE int64_t block_bytes(kind k) { return quant_bytes(k) + (k == Q8 ? 16 : 32); }
ALWAYS_INLINE int steps(kind k) { return (int)act_bytes(k) / STEP; }

/* ---- one step, in each kind ---- */

ALWAYS_INLINE vi unpack(const uint8_t *block, int step, kind k) {
    if (k == Q8) return vi_widen((const int8_t *)block + 16 * step);
    if (k == Q4) return vi_nibbles16(vi_load(block + VECTOR * (step / 4)), step % 4);
    return vi_nibbles8(vi_load(block + VECTOR * (step / 2)), step % 2);
}

ALWAYS_INLINE vi dot(vi sum, vi weights, vi acts, kind k) {
    return k == Q4_MIXED ? vi_dot8(sum, weights, acts) : vi_dot16(sum, weights, acts);
}

/* 8 products of at most 2 * 15 * 127 fit 16 bits, so the mixed kind widens once a block. */
ALWAYS_INLINE vf block_sum(vi sum, kind k) {
    return vf_from_int(k == Q4_MIXED ? vi_fold(sum) : sum);
}

ALWAYS_INLINE vf add_block(vf y, vi sum, vf d, vf m, const float *scale, kind k) {
    y = vf_fma(block_sum(sum, k), vf_mul(d, vf_set(scale[0])), y);
    return k == Q8 ? y : vf_fma(m, vf_set(scale[1]), y);
}

ALWAYS_INLINE vf add_fine(vf y, vi sum, vf d, const float *scale) {
    vf part = vf_mul(vf_mul(d, vf_set(1.0f / FINE_STEPS)), vf_set(scale[0]));
    return vf_fma(block_sum(sum, Q4_MIXED), part, y);
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

ALWAYS_INLINE void prefetch(const uint8_t *from, int64_t size) {
    for (int64_t at = 0; at < size; at += CACHE_LINE) PREFETCH(from + at);
}

ALWAYS_INLINE void prefetch_strip(const product *t, int64_t panel, kind k) {
    int64_t size = t->in.blocks * block_bytes(k);
    if ((panel + 2) * PANEL <= t->channels) prefetch(t->weights + panel * size, 2 * size);
}

/* ---- few rows: a panel's weights go to registers for tiles of up to 4 rows, used at once ---- */

ALWAYS_INLINE void panel_block(vi *sum, const uint8_t *w, const uint8_t *a, int64_t stride,
                               int rows, kind k) {
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
}

ALWAYS_INLINE void panel_times_rows(const product *t, int64_t panel, int64_t row, int rows,
                                    kind k) {
    int64_t stride = t->in.blocks * act_bytes(k), at = row * t->in.blocks;
    const uint8_t *w = t->weights + panel * t->in.blocks * block_bytes(k);
    const uint8_t *wide = t->in.wide + row / t->tile * t->in.blocks;
    const float *s = t->in.scales + at * 2;
    vf y[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) y[r] = vf_set(0.0f);
    for (int64_t b = 0; b < t->in.blocks; b++, at++, w += block_bytes(k), s += 2) {
        if (row == 0) prefetch(w + AHEAD, block_bytes(k)); /* past the end it does nothing */
        vi sum[TILE_ROWS];
        panel_block(sum, w, t->in.coarse + at * act_bytes(k), stride, rows, k);
        const uint16_t *halves = (const uint16_t *)(w + quant_bytes(k));
        vf d = vf_half(halves), m = k == Q8 ? d : vf_half(halves + PANEL);
        UNROLL
        for (int r = 0; r < rows; r++)
            y[r] = add_block(y[r], sum[r], d, m, s + r * t->in.blocks * 2, k);
        if (k != Q4_MIXED || !wide[b]) continue;
        panel_block(sum, w, t->in.fine + at * BLOCK, stride, rows, k);
        UNROLL
        for (int r = 0; r < rows; r++) y[r] = add_fine(y[r], sum[r], d, s + r * t->in.blocks * 2);
    }
    UNROLL
    for (int r = 0; r < rows; r++) store_panel(t, row + r, panel * PANEL, y[r]);
}

/* The panel is read from memory once; its later tiles find it in the first cache. */
ALWAYS_INLINE void panel_times_few(const product *t, int64_t panel, kind k) {
    for (int64_t row = 0; row < t->in.rows; row += t->tile) {
        switch (t->in.rows - row < t->tile ? t->in.rows - row : t->tile) {
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
        const uint8_t *w = t->weights + (first_panel + half) * t->in.blocks * block_bytes(k);
        uint8_t *q = s.quants + half * VECTOR;
        float *f = s.scales + half * PANEL;
        for (int64_t b = 0; b < t->in.blocks; b++, w += block_bytes(k), f += 4 * PANEL) {
            for (int i = 0; i < steps(k); i++, q += 2 * VECTOR) vi_store(q, unpack(w, i, k));
            const uint16_t *halves = (const uint16_t *)(w + quant_bytes(k));
            vf_store(f, vf_half(halves));
            if (k != Q8) vf_store(f + 2 * PANEL, vf_half(halves + PANEL));
        }
    }
}

ALWAYS_INLINE void strip_block(vi (*sum)[2], const uint8_t *q, const uint8_t *a, int64_t stride,
                               int rows, kind k) {
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
}

ALWAYS_INLINE void strip_times_rows(const product *t, strip w, int64_t panel, int64_t row, int rows,
                                    kind k) {
    int64_t stride = t->in.blocks * act_bytes(k), at = row * t->in.blocks;
    const uint8_t *q = w.quants, *wide = t->in.wide + row / t->tile * t->in.blocks;
    const float *s = t->in.scales + at * 2, *f = w.scales;
    vf y[MAX_ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++) y[r][0] = y[r][1] = vf_set(0.0f);
    const int64_t strip_block_bytes = steps(k) * 2 * VECTOR;
    for (int64_t b = 0; b < t->in.blocks;
         b++, at++, s += 2, f += 4 * PANEL, q += strip_block_bytes) {
        vi sum[MAX_ROWS][2];
        strip_block(sum, q, t->in.coarse + at * act_bytes(k), stride, rows, k);
        UNROLL
        for (int half = 0; half < 2; half++) {
            vf d = vf_load(f + half * PANEL), m = vf_load(f + (2 + half) * PANEL);
            UNROLL
            for (int r = 0; r < rows; r++)
                y[r][half] = add_block(y[r][half], sum[r][half], d, m, s + r * t->in.blocks * 2, k);
        }
        if (k != Q4_MIXED || !wide[b]) continue;
        strip_block(sum, q, t->in.fine + at * BLOCK, stride, rows, k);
        UNROLL
        for (int half = 0; half < 2; half++) {
            vf d = vf_load(f + half * PANEL);
            UNROLL
            for (int r = 0; r < rows; r++)
                y[r][half] = add_fine(y[r][half], sum[r][half], d, s + r * t->in.blocks * 2);
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
    for (; row + 6 <= t->in.rows; row += 6) strip_times_rows(t, w, panel, row, 6, k);
    switch (t->in.rows - row) {
    case 1: strip_times_rows(t, w, panel, row, 1, k); break;
    case 2: strip_times_rows(t, w, panel, row, 2, k); break;
    case 3: strip_times_rows(t, w, panel, row, 3, k); break;
    case 4: strip_times_rows(t, w, panel, row, 4, k); break;
    case 5: strip_times_rows(t, w, panel, row, 5, k); break;
    }
}

/* ---- the whole product, split over strips of channels ---- */

static int64_t tile_of(int64_t rows) {
    if (rows > FEW_ROWS) return MAX_ROWS;
    int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    return (rows + tiles - 1) / tiles;
}

ALWAYS_INLINE void multiply(const product *t, int worker, int64_t from, int64_t to, kind k) {
    if (t->in.rows <= FEW_ROWS) {
        for (int64_t panel = 2 * from; panel < 2 * to; panel++) panel_times_few(t, panel, k);
        return;
    }
    float *scales = (float *)(t->strips + worker * strip_bytes(t->in.blocks, k));
    strip s = {(uint8_t *)(scales + t->in.blocks * 4 * PANEL), scales};
    for (int64_t i = from; i < to; i++) {
        unpack_strip(t, 2 * i, s, k);
        prefetch_strip(t, 2 * i + 2, k);
        strip_times_all(t, s, 2 * i, k);
    }
}

static void multiply_q8(void *t, int worker, int64_t from, int64_t to) {
    multiply(t, worker, from, to, Q8);
}

static void multiply_q4(void *t, int worker, int64_t from, int64_t to) {
    multiply(t, worker, from, to, Q4);
}

static void multiply_q4_mixed(void *t, int worker, int64_t from, int64_t to) {
    multiply(t, worker, from, to, Q4_MIXED);
}

/* Bytes of workspace that `agentrt_linear_int` needs, 64-byte aligned. */
int64_t agentrt_linear_int_workspace(int64_t rows, int64_t inputs, int k, int threads) {
    int64_t blocks = inputs / BLOCK;
    return activation_bytes(rows, blocks, k) + threads * strip_bytes(blocks, k);
}

void agentrt_linear_int(const void *weights, const float *bias, const float *x, float *out,
                        uint8_t *workspace, int64_t rows, int64_t inputs, int64_t channels, int k,
                        int threads) {
    static range_fn *const by_kind[] = {multiply_q8, multiply_q4, multiply_q4_mixed};
    if (rows == 0) return; /* a step from which nothing is chosen */
    int64_t tile = tile_of(rows), scratch = threads * strip_bytes(inputs / BLOCK, k);
    activations in = quantise(x, workspace + scratch, rows, inputs / BLOCK, k, tile, threads);

    product t = {weights, bias, in, out, workspace, tile, channels};
    int64_t strips = (channels + STRIP - 1) / STRIP;
    threads = threads_for((double)inputs * channels * (rows < 3 ? 1 : rows / 3.0), threads);
    int64_t grain = grain_for(strips, threads, 1);
    if (rows <= FEW_ROWS) grain *= 2; /* memory is waited for where a run of weights begins */
    parallel_for(threads, strips, grain, by_kind[k], &t);
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
