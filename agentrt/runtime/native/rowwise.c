/* The small operators between the products, row by row: each row's arithmetic is its own. */
#include "kernels.h"
#include "parallel.h"
#include "simd.h"

typedef struct {
    const float *x, *residual, *weight, *cos, *sin;
    float *sum, *out;
    int64_t dim, heads, token_stride, head_stride;
    float eps;
    int activation;
} rowwise;

static void for_rows(rowwise *task, range_fn *run, int64_t rows, double work, int threads) {
    threads = threads_for(work, threads);
    parallel_for(threads, rows, grain_for(rows, threads, 1), run, task);
}

/* ---- root mean square norm ---- */

static float mean_of_squares(const float *x, int64_t dim) {
    vf s[4] = {vf_set(0.0f), vf_set(0.0f), vf_set(0.0f), vf_set(0.0f)};
    int64_t d = 0;
    for (; d + 32 <= dim; d += 32)
        for (int i = 0; i < 4; i++) {
            vf v = vf_load(x + d + 8 * i);
            s[i] = vf_fma(v, v, s[i]);
        }
    for (; d < dim; d += 8) {
        vf v = vf_load_n(x + d, (int)(dim - d));
        s[0] = vf_fma(v, v, s[0]);
    }
    return vf_hsum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3]))) / (float)dim;
}

static void norm_rows(void *task, int worker, int64_t from, int64_t to) {
    const rowwise *t = task;
    (void)worker;
    for (int64_t row = from; row < to; row++) {
        const float *x = t->x + row / t->heads * t->token_stride + row % t->heads * t->dim;
        float *out = t->out + row * t->dim;
        if (t->residual) {
            float *sum = t->sum + row * t->dim;
            const float *residual = t->residual + row * t->dim;
            for (int64_t d = 0; d < t->dim; d++) sum[d] = x[d] + residual[d];
            x = sum;
        }
        float scale = 1.0f / sqrtf(mean_of_squares(x, t->dim) + t->eps);
        for (int64_t d = 0; d < t->dim; d++) out[d] = x[d] * scale * t->weight[d];
    }
}

void agentrt_rms_norm(const float *x, const float *residual, float *sum, const float *weight,
                      float *out, int64_t rows, int64_t heads, int64_t token_stride, int64_t dim,
                      float eps, int threads) {
    rowwise t = {.x = x, .residual = residual, .sum = sum, .weight = weight, .out = out,
                 .heads = heads, .token_stride = token_stride, .dim = dim, .eps = eps};
    for_rows(&t, norm_rows, rows, (double)(rows * dim), threads);
}

/* ---- gated activations ---- */

enum { SILU = 0, GELU_TANH = 1 };

static vf activate(vf x, int activation) {
    vf one = vf_set(1.0f);
    if (activation == SILU) return vf_div(x, vf_add(one, vf_exp(vf_sub(vf_set(0.0f), x))));
    vf cubed = vf_mul(vf_mul(x, x), x);
    vf inner = vf_mul(vf_set(0.7978845608f), vf_fma(vf_set(0.044715f), cubed, x));
    return vf_mul(vf_mul(vf_set(0.5f), x), vf_add(one, vf_tanh(inner)));
}

static void gate_rows(void *task, int worker, int64_t from, int64_t to) {
    const rowwise *t = task;
    (void)worker;
    for (int64_t row = from; row < to; row++) {
        const float *gate = t->x + row * 2 * t->dim, *up = gate + t->dim;
        float *out = t->out + row * t->dim;
        for (int64_t d = 0; d < t->dim; d += 8) {
            int lanes = t->dim - d < 8 ? (int)(t->dim - d) : 8;
            vf y = activate(vf_load_n(gate + d, lanes), t->activation);
            vf_store_n(out + d, vf_mul(y, vf_load_n(up + d, lanes)), lanes);
        }
    }
}

void agentrt_gate(const float *gate_up, float *out, int64_t rows, int64_t dim, int activation,
                  int threads) {
    rowwise t = {.x = gate_up, .out = out, .dim = dim, .activation = activation};
    for_rows(&t, gate_rows, rows, (double)(rows * dim) * 4, threads);
}

/* ---- rotary embedding ---- */

static void rotate_rows(void *task, int worker, int64_t from, int64_t to) {
    const rowwise *t = task;
    int64_t half = t->dim / 2;
    (void)worker;
    for (int64_t row = from; row < to; row++) {
        const float *cos = t->cos + row * t->dim, *sin = t->sin + row * t->dim;
        for (int64_t head = 0; head < t->heads; head++) {
            float *low = t->out + row * t->token_stride + head * t->head_stride, *high = low + half;
            for (int64_t d = 0; d < half; d++) {
                float a = low[d], b = high[d];
                low[d] = a * cos[d] - b * sin[d];
                high[d] = b * cos[half + d] + a * sin[half + d];
            }
        }
    }
}

void agentrt_rotate(float *x, const float *cos, const float *sin, int64_t tokens, int64_t heads,
                    int64_t dim, int64_t token_stride, int64_t head_stride, int threads) {
    rowwise t = {.out = x, .cos = cos, .sin = sin, .dim = dim, .heads = heads,
                 .token_stride = token_stride, .head_stride = head_stride};
    for_rows(&t, rotate_rows, tokens, (double)(tokens * heads * dim), threads);
}
