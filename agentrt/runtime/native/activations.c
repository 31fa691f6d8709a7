/* Rows of floats rounded to blocks of integers: contracts are in activations.h. */
#include "activations.h"

#include "kernels.h"
#include "parallel.h"

/* A block stands out if its largest value is more than so many times its row's root mean square. */
static const float STANDS_OUT = 7.0f;

typedef struct {
    const float *x;
    activations out; /* `wide` is [rows][blocks] until the tiles are joined */
    kind k;
} quantisation;

/* Compared as bits, so that one NaN makes the scale, and with it the row's outputs, NaN. */
ALWAYS_INLINE float largest_of(const vf v[4]) {
    vi largest = vi_zero();
    for (int i = 0; i < 4; i++) largest = vi_max(largest, vf_magnitude(v[i]));
    int32_t bits = vi_hmax(largest);
    float size;
    memcpy(&size, &bits, sizeof size);
    return size;
}

static float root_mean_square(const float *x, int64_t blocks) {
    vf sum[4];
    for (int i = 0; i < 4; i++) sum[i] = vf_set(0.0f);
    for (int64_t at = 0; at < blocks * BLOCK; at += BLOCK) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            vf v = vf_load(x + at + 8 * i);
            sum[i] = vf_fma(v, v, sum[i]);
        }
    }
    float total = vf_hsum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
    return sqrtf(total / (float)(blocks * BLOCK));
}

/* What rounding to `coarse` left of v * inverse; returns its sum in coarse steps. */
static float keep_fine(const vf v[4], const vi coarse[4], float inverse, uint8_t *fine) {
    vi q[4], sum = vi_zero();
    for (int i = 0; i < 4; i++) {
        vf rest = vf_sub(vf_mul(v[i], vf_set(inverse)), vf_from_int(coarse[i]));
        q[i] = vf_round(vf_mul(rest, vf_set(FINE_STEPS)));
        sum = vi_add(sum, q[i]);
    }
    vi_store8((int8_t *)fine, q);
    return (float)vi_hsum(sum) * (1.0f / FINE_STEPS);
}

/* Block b of all that there are; with a value larger than `limit` it stands out. */
static void quantise_block(const quantisation *t, int64_t b, float limit) {
    vf v[4];
    vi q[4], sum = vi_zero();
    for (int i = 0; i < 4; i++) v[i] = vf_load(t->x + b * BLOCK + 8 * i);
    float size = largest_of(v), top = t->k == Q4_MIXED ? 127.0f : 32767.0f;
    float inverse = size < 1e-30f ? 0.0f : top / size; /* smaller ones would overflow it */
    for (int i = 0; i < 4; i++) {
        q[i] = vf_round(vf_mul(v[i], vf_set(inverse)));
        sum = vi_add(sum, q[i]);
    }
    float total = (float)vi_hsum(sum);
    uint8_t *coarse = t->out.coarse + b * act_bytes(t->k);
    if (t->k == Q4_MIXED) {
        uint8_t *fine = t->out.fine + b * BLOCK;
        vi_store8((int8_t *)coarse, q);
        t->out.wide[b] = size > limit;
        if (size > limit)
            total += keep_fine(v, q, inverse, fine);
        else
            vi_store(fine, vi_zero());
    } else {
        vi_store16((int16_t *)coarse, q[0], q[1]);
        vi_store16((int16_t *)coarse + 16, q[2], q[3]);
    }
    float *scale = t->out.scales + 2 * b;
    scale[0] = size < 1e-30f ? 0.0f : size / top;
    scale[1] = scale[0] * total;
}

static void quantise_rows(void *task, int worker, int64_t from, int64_t to) {
    const quantisation *t = task;
    int64_t blocks = t->out.blocks;
    (void)worker;
    for (int64_t row = from; row < to; row++) {
        float limit = 0.0f;
        if (t->k == Q4_MIXED)
            limit = STANDS_OUT * root_mean_square(t->x + row * blocks * BLOCK, blocks);
        for (int64_t b = row * blocks; b < (row + 1) * blocks; b++) quantise_block(t, b, limit);
    }
}

/* The flags of all rows of a tile become one, in place. */
static void join_tiles(uint8_t *wide, int64_t rows, int64_t tile, int64_t blocks) {
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *joined = wide + row / tile * blocks;
        const uint8_t *own = wide + row * blocks;
        if (row % tile == 0)
            memmove(joined, own, (size_t)blocks);
        else
            for (int64_t b = 0; b < blocks; b++) joined[b] |= own[b];
    }
}

int64_t activation_bytes(int64_t rows, int64_t blocks, kind k) {
    int64_t fine = k == Q4_MIXED ? BLOCK + 1 : 0;
    return rows * blocks * (act_bytes(k) + 2 * (int64_t)sizeof(float) + fine);
}

activations quantise(const float *x, uint8_t *memory, int64_t rows, int64_t blocks, kind k,
                     int64_t tile, int threads) {
    int64_t all = rows * blocks;
    float *scales = (float *)memory;
    uint8_t *coarse = (uint8_t *)(scales + 2 * all), *fine = coarse + all * act_bytes(k);
    quantisation t = {x, {coarse, fine, fine + all * BLOCK, scales, rows, blocks}, k};
    threads = threads_for((double)(all * BLOCK), threads);
    parallel_for(threads, rows, grain_for(rows, threads, 1), quantise_rows, &t);
    if (k == Q4_MIXED) join_tiles(t.out.wide, rows, tile, blocks);
    return t.out;
}
