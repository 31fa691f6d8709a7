/* y = W x for 4-bit and 8-bit weights with a scale per 32 of them, activations in 16 bits.
 *
 * Weights: W[n][k] = d[n][k / 32] * q[n][k] + m[n][k / 32], q in 0..15 (q4) or -128..127 (q8, m = 0).
 * Activations: each row, by itself, in blocks of 32: x ~ s * a, a in -32767..32767, s = max|x| / 32767.
 * A block's sum of q * a is an exact int32 (at most 32 * 128 * 32767 < 2^31). Then, block by block,
 *     y = fma(sum, d * s, y);   y = fma(m, s * sum(a), y)        (the second for q4 only)
 * starting from 0, and last y + bias. That chain is the only rounding, it is the same for every
 * tiling below, and so a row's result does not depend on the other rows, the threads or the tile.
 *
 * Packed weights: panels of 8 channels, [n / 8][k / 32] blocks. A block holds, as 16 "pairs" of
 * [8 channels][2 values of k], q8: int8 pair by pair; q4: four pairs to 32 bytes, pair g of them in
 * bits [4g, 4g + 4) of 16 little-endian int16; then 8 half d, and for q4 8 half m. */
#include "parallel.h"
#include "simd.h"

enum { BLOCK = 32, PAIRS = 16, PANEL = 8, STRIP = 16, MAX_ROWS = 6, FEW_ROWS = 4 };
enum { Q4_QUANTS = 128, Q8_QUANTS = 256, HALVES = 16 };

typedef struct {
    const uint8_t *weights;
    const float *bias; /* may be null */
    const int16_t *acts;
    const float *scales; /* [rows][blocks][2]: s, s * sum(a) */
    float *out;
    uint8_t *strips; /* a strip's worth of scratch per thread */
    int64_t rows, blocks, channels;
    int is_q4;
} product;

static int64_t block_bytes(int is_q4) {
    return is_q4 ? Q4_QUANTS + 2 * HALVES : Q8_QUANTS + HALVES;
}

/* ---- activations ---- */

typedef struct {
    const float *x;
    int16_t *acts;
    float *scales;
    int64_t blocks;
} quantisation;

static void quantise_block(const float *x, int16_t *acts, float *scale) {
    vf v[4];
    vi largest = vi_zero(), sum = vi_zero(), q[4];
    for (int i = 0; i < 4; i++) {
        v[i] = vf_load(x + 8 * i);
        largest = vi_max(largest, vf_magnitude(v[i]));
    }
    /* Compared as bits, so that one NaN makes the scale, and with it the row's outputs, NaN. */
    int32_t bits = vi_hmax(largest);
    float top;
    memcpy(&top, &bits, sizeof top);
    float inverse = top < 1e-30f ? 0.0f : 32767.0f / top;
    for (int i = 0; i < 4; i++) {
        q[i] = vf_round(vf_mul(v[i], vf_set(inverse)));
        sum = vi_add(sum, q[i]);
    }
    vi_store16(acts, q[0], q[1]);
    vi_store16(acts + 16, q[2], q[3]);
    scale[0] = top < 1e-30f ? 0.0f : top * (1.0f / 32767.0f);
    scale[1] = scale[0] * (float)vi_hsum(sum);
}

static void quantise_rows(void *task, int worker, int64_t from, int64_t to) {
    const quantisation *t = task;
    (void)worker;
    for (int64_t b = from * t->blocks; b < to * t->blocks; b++)
        quantise_block(t->x + b * BLOCK, t->acts + b * BLOCK, t->scales + 2 * b);
}

/* ---- up to 4 rows: weights go from memory to registers and are used at once ---- */

ALWAYS_INLINE void unpack_four(const uint8_t *w, int pair, vs q[4], int is_q4) {
    if (is_q4) {
        vs packed = vs_load(w + 8 * pair);
        UNROLL
        for (int g = 0; g < 4; g++) q[g] = vs_nibbles(packed, g);
    } else {
        UNROLL
        for (int g = 0; g < 4; g++) q[g] = vs_widen((const int8_t *)w + 16 * (pair + g));
    }
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

ALWAYS_INLINE void panel_times_rows(const product *t, int64_t panel, int rows, int is_q4) {
    int64_t size = block_bytes(is_q4), quants = is_q4 ? Q4_QUANTS : Q8_QUANTS;
    int64_t stride = t->blocks * BLOCK;
    const uint8_t *w = t->weights + panel * t->blocks * size;
    const int16_t *a = t->acts;
    const float *s = t->scales;
    vf y[FEW_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) y[r] = vf_set(0.0f);
    for (int64_t b = 0; b < t->blocks; b++, w += size, s += 2) {
        vi sum[FEW_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++) sum[r] = vi_zero();
        for (int p = 0; p < PAIRS; p += 4, a += 8) {
            vs q[4];
            unpack_four(w, p, q, is_q4);
            UNROLL
            for (int g = 0; g < 4; g++)
                UNROLL
                for (int r = 0; r < rows; r++) {
                    sum[r] = vi_dot(sum[r], q[g], vs_pair(a + r * stride + 2 * g));
                    KEEP(sum[r]);
                }
        }
        const uint16_t *halves = (const uint16_t *)(w + quants);
        vf d = vf_half(halves), m = is_q4 ? vf_half(halves + PANEL) : vf_set(0.0f);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const float *scale = s + r * t->blocks * 2;
            vf total = vf_from_int(sum[r]);
            y[r] = vf_fma(total, vf_mul(d, vf_set(scale[0])), y[r]);
            if (is_q4) y[r] = vf_fma(m, vf_set(scale[1]), y[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) store_panel(t, r, panel * PANEL, y[r]);
}

ALWAYS_INLINE void panel_times_few(const product *t, int64_t panel, int is_q4) {
    switch (t->rows) {
    case 1: panel_times_rows(t, panel, 1, is_q4); break;
    case 2: panel_times_rows(t, panel, 2, is_q4); break;
    case 3: panel_times_rows(t, panel, 3, is_q4); break;
    case 4: panel_times_rows(t, panel, 4, is_q4); break;
    }
}

/* ---- several rows: a strip of two panels is unpacked once and meets tiles of up to 6 rows ---- */

typedef struct {
    int16_t *quants; /* [blocks][PAIRS][2 panels][8][2] */
    float *scales;   /* [blocks][d, m][2 panels][8] */
} strip;

static int64_t strip_bytes(int64_t blocks) { return blocks * STRIP * (BLOCK * 2 + 2 * 4); }

static void unpack_strip(const product *t, int64_t first_panel, strip s, int is_q4) {
    int64_t size = block_bytes(is_q4), quants = is_q4 ? Q4_QUANTS : Q8_QUANTS;
    UNROLL
    for (int half = 0; half < 2; half++) {
        const uint8_t *w = t->weights + (first_panel + half) * t->blocks * size;
        for (int64_t b = 0; b < t->blocks; b++, w += size) {
            int16_t *q = s.quants + (b * PAIRS * 2 + half) * 2 * PANEL;
            for (int p = 0; p < PAIRS; p++) {
                vs values = is_q4 ? vs_nibbles(vs_load(w + 32 * (p / 4)), p % 4)
                                  : vs_widen((const int8_t *)w + 16 * p);
                vs_store(q + p * 4 * PANEL, values);
            }
            const uint16_t *halves = (const uint16_t *)(w + quants);
            float *f = s.scales + b * 4 * PANEL + half * PANEL;
            vf_store(f, vf_half(halves));
            if (is_q4) vf_store(f + 2 * PANEL, vf_half(halves + PANEL));
        }
    }
}

ALWAYS_INLINE void strip_times_rows(const product *t, strip w, int64_t panel, int64_t row, int rows,
                                    int is_q4) {
    int64_t stride = t->blocks * BLOCK;
    const int16_t *a = t->acts + row * stride, *q = w.quants;
    const float *s = t->scales + row * t->blocks * 2, *f = w.scales;
    vf y[MAX_ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++) y[r][0] = y[r][1] = vf_set(0.0f);
    for (int64_t b = 0; b < t->blocks; b++, s += 2, f += 4 * PANEL) {
        vi sum[MAX_ROWS][2];
        UNROLL
        for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = vi_zero();
#pragma GCC unroll 4
        for (int p = 0; p < PAIRS; p++, a += 2, q += 4 * PANEL) {
            vs q0 = vs_load(q), q1 = vs_load(q + 2 * PANEL);
            KEEP(q0);
            KEEP(q1);
            UNROLL
            for (int r = 0; r < rows; r++) {
                vs x = vs_pair(a + r * stride);
                sum[r][0] = vi_dot(sum[r][0], q0, x);
                sum[r][1] = vi_dot(sum[r][1], q1, x);
                KEEP(sum[r][0]);
                KEEP(sum[r][1]);
            }
        }
        UNROLL
        for (int half = 0; half < 2; half++) {
            vf d = vf_load(f + half * PANEL), m = vf_load(f + (2 + half) * PANEL);
            UNROLL
            for (int r = 0; r < rows; r++) {
                const float *scale = s + r * t->blocks * 2;
                vf scaled = vf_mul(d, vf_set(scale[0]));
                y[r][half] = vf_fma(vf_from_int(sum[r][half]), scaled, y[r][half]);
                if (is_q4) y[r][half] = vf_fma(m, vf_set(scale[1]), y[r][half]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int half = 0; half < 2; half++)
            store_panel(t, row + r, (panel + half) * PANEL, y[r][half]);
}

ALWAYS_INLINE void strip_times_all(const product *t, strip w, int64_t panel, int is_q4) {
    int64_t row = 0;
    for (; row + 6 <= t->rows; row += 6) strip_times_rows(t, w, panel, row, 6, is_q4);
    switch (t->rows - row) {
    case 1: strip_times_rows(t, w, panel, row, 1, is_q4); break;
    case 2: strip_times_rows(t, w, panel, row, 2, is_q4); break;
    case 3: strip_times_rows(t, w, panel, row, 3, is_q4); break;
    case 4: strip_times_rows(t, w, panel, row, 4, is_q4); break;
    case 5: strip_times_rows(t, w, panel, row, 5, is_q4); break;
    }
}

/* ---- the whole product, split over strips of channels ---- */

ALWAYS_INLINE void multiply_strips(const product *t, int worker, int64_t from, int64_t to, int is_q4) {
    if (t->rows <= FEW_ROWS) {
        for (int64_t panel = 2 * from; panel < 2 * to; panel++) panel_times_few(t, panel, is_q4);
        return;
    }
    float *scales = (float *)(t->strips + worker * strip_bytes(t->blocks));
    strip s = {(int16_t *)(scales + t->blocks * 2 * STRIP), scales};
    for (int64_t i = from; i < to; i++) {
        unpack_strip(t, 2 * i, s, is_q4);
        strip_times_all(t, s, 2 * i, is_q4);
    }
}

static void multiply_q4(void *task, int worker, int64_t from, int64_t to) {
    multiply_strips(task, worker, from, to, 1);
}

static void multiply_q8(void *task, int worker, int64_t from, int64_t to) {
    multiply_strips(task, worker, from, to, 0);
}

/* Bytes of workspace that `agentrt_linear_int` needs, 64-byte aligned. */
int64_t agentrt_linear_int_workspace(int64_t rows, int64_t inputs, int threads) {
    int64_t blocks = inputs / BLOCK;
    return (rows * blocks * (BLOCK * 2 + 8) + 63) / 64 * 64 + threads * strip_bytes(blocks);
}

/* out [rows][channels] = x [rows][inputs] times the packed weights, plus bias if there is one. */
void agentrt_linear_int(const void *weights, const float *bias, const float *x, float *out,
                        uint8_t *workspace, int64_t rows, int64_t inputs, int64_t channels, int is_q4,
                        int threads) {
    int64_t blocks = inputs / BLOCK;
    float *scales = (float *)(workspace + threads * strip_bytes(blocks));
    int16_t *acts = (int16_t *)(scales + rows * blocks * 2);
    quantisation q = {x, acts, scales, blocks};
    int quantisers = threads_for((double)(rows * inputs), threads);
    parallel_for(quantisers, rows, grain_for(rows, quantisers, 1), quantise_rows, &q);

    product t = {weights, bias, acts, scales, out, workspace, rows, blocks, channels, is_q4};
    int64_t strips = (channels + STRIP - 1) / STRIP;
    threads = threads_for((double)inputs * channels * (rows < 3 ? 1 : rows / 3.0), threads);
    parallel_for(threads, strips, grain_for(strips, threads, 1), is_q4 ? multiply_q4 : multiply_q8,
                 &t);
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
    int64_t size = block_bytes(t->is_q4), quants = t->is_q4 ? Q4_QUANTS : Q8_QUANTS;
    (void)worker;
    for (int64_t i = from; i < to; i++) {
        int64_t panel = t->ids[i] / PANEL, channel = t->ids[i] % PANEL;
        const uint8_t *w = t->weights + panel * t->blocks * size;
        float *out = t->out + i * t->blocks * BLOCK;
        for (int64_t b = 0; b < t->blocks; b++, w += size) {
            float d[PANEL], m[PANEL] = {0};
            vf_store(d, vf_half((const uint16_t *)(w + quants)));
            if (t->is_q4) vf_store(m, vf_half((const uint16_t *)(w + quants) + PANEL));
            for (int p = 0; p < PAIRS; p++)
                for (int h = 0; h < 2; h++) {
                    int64_t at = channel * 2 + h, nibbles = 32 * (p / 4) + 2 * at + p % 4 / 2;
                    int q = t->is_q4 ? w[nibbles] >> (p % 2 * 4) & 15 : (int8_t)w[16 * p + at];
                    *out++ = fmaf(d[channel], (float)q, m[channel]);
                }
        }
    }
}

/* out [count][inputs] = rows `ids` of the packed weights, each value rounded once. */
void agentrt_lookup_int(const void *weights, const int64_t *ids, float *out, int64_t count, int64_t inputs,
                        int is_q4, int threads) {
    lookup t = {weights, ids, out, inputs / BLOCK, is_q4};
    threads = threads_for((double)(count * inputs), threads);
    parallel_for(threads, count, grain_for(count, threads, 1), look_up, &t);
}
