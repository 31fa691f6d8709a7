/* y = W x in float32. Every output is one chain y = fma(w[k], x[k], y) over k = 0, 1, 2, ... from
 * 0, and last y + bias, whatever tile computes it: its bits do not depend on the other rows.
 *
 * Packed weights: [n / 16][k][16], a strip of 16 channels at a time, zero rows to fill the last. */
#include "kernels.h"
#include "parallel.h"
#include "simd.h"

enum { STRIP = 16, MAX_ROWS = 6, WIDE = 4 };

typedef struct {
    const float *weights, *bias, *x; /* bias may be null */
    float *out;
    int64_t rows, inputs, channels;
} product;

ALWAYS_INLINE void store_half_strip(const product *t, int64_t row, int64_t channel, vf y) {
    if (channel >= t->channels) return;
    int lanes = t->channels - channel < 8 ? (int)(t->channels - channel) : 8;
    if (t->bias) y = vf_add(y, vf_load_n(t->bias + channel, lanes));
    float *out = t->out + row * t->channels + channel;
    if (lanes == 8)
        vf_store(out, y);
    else
        vf_store_n(out, y, lanes);
}

/* `strips` neighbouring strips times `rows` rows, in at most 12 registers of sums: several strips
 * where rows are few, because a chain alone would wait on the latency of its own additions. */
ALWAYS_INLINE void tile(const product *t, int64_t strip, int strips, int64_t row, int rows) {
    const float *w = t->weights + strip * STRIP * t->inputs;
    const float *x = t->x + row * t->inputs;
    vf y[MAX_ROWS][2 * WIDE];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int h = 0; h < 2 * strips; h++) y[r][h] = vf_set(0.0f);
    for (int64_t k = 0; k < t->inputs; k++) {
        UNROLL
        for (int s = 0; s < strips; s++) {
            const float *wk = w + s * STRIP * t->inputs + k * STRIP;
            vf w0 = vf_load(wk), w1 = vf_load(wk + 8);
            KEEP(w0);
            KEEP(w1);
            UNROLL
            for (int r = 0; r < rows; r++) {
                vf xk = vf_set(x[r * t->inputs + k]);
                y[r][2 * s] = vf_fma(w0, xk, y[r][2 * s]);
                y[r][2 * s + 1] = vf_fma(w1, xk, y[r][2 * s + 1]);
                KEEP(y[r][2 * s]);
                KEEP(y[r][2 * s + 1]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int h = 0; h < 2 * strips; h++)
            store_half_strip(t, row + r, strip * STRIP + 8 * h, y[r][h]);
}

static void multiply_strip(const product *t, int64_t strip) {
    int64_t row = 0;
    for (; row + 6 <= t->rows; row += 6) tile(t, strip, 1, row, 6);
    switch (t->rows - row) {
    case 1: tile(t, strip, 1, row, 1); break;
    case 2: tile(t, strip, 1, row, 2); break;
    case 3: tile(t, strip, 1, row, 3); break;
    case 4: tile(t, strip, 1, row, 4); break;
    case 5: tile(t, strip, 1, row, 5); break;
    }
}

static void multiply(void *task, int worker, int64_t from, int64_t to) {
    const product *t = task;
    (void)worker;
    if (t->rows == 1)
        for (; from + 4 <= to; from += 4) tile(t, from, 4, 0, 1);
    else if (t->rows == 2)
        for (; from + 3 <= to; from += 3) tile(t, from, 3, 0, 2);
    else if (t->rows == 3)
        for (; from + 2 <= to; from += 2) tile(t, from, 2, 0, 3);
    for (; from < to; from++) multiply_strip(t, from);
}

void agentrt_linear_f32(const float *weights, const float *bias, const float *x, float *out,
                        int64_t rows, int64_t inputs, int64_t channels, int threads) {
    product t = {weights, bias, x, out, rows, inputs, channels};
    int64_t strips = (channels + STRIP - 1) / STRIP;
    threads = threads_for((double)inputs * channels * (rows < 4 ? 4 : rows), threads);
    parallel_for(threads, strips, grain_for(strips, threads, 4), multiply, &t);
}

/* out [count][inputs] = rows `ids` of the packed weights. */
void agentrt_lookup_f32(const float *weights, const int64_t *ids, float *out, int64_t count,
                        int64_t inputs) {
    for (int64_t i = 0; i < count; i++) {
        const float *w = weights + ids[i] / STRIP * STRIP * inputs + ids[i] % STRIP;
        for (int64_t k = 0; k < inputs; k++) *out++ = w[k * STRIP];
    }
}
