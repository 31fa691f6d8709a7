/* The kernels that may be called from a list of calls (replay.c), and what they are given. */
#ifndef AGENTRT_KERNELS_H
#define AGENTRT_KERNELS_H

#include <stdint.h>

/* What a batch is, the same for every layer. */
typedef struct {
    const int32_t *slots;
    const int32_t *tiles;     /* [tiles][2]: first token, last token + 1 */
    const int32_t *sequence;  /* [tokens]: which sequence a token belongs to */
    const int32_t *visible;   /* [tokens]: how many of its sequence's slots it sees */
    const int32_t *kv_start;  /* [sequences]: where in `slots` a sequence begins */
    const int64_t *out_slots; /* [tokens]: where its K and V go */
    int64_t num_tiles, num_visible; /* the sum of `visible` */
} agentrt_attention_batch;

/* What a layer is, the same for every batch; below, what `agentrt_attention` is called with. */
typedef struct {
    const float *k, *v; /* the pool's [slots][kv heads][dim] and [..][v_dim] */
    int64_t heads, kv_heads, dim, v_dim, window; /* window 0: none */
    float scale, softcap;                        /* softcap 0: none */
    const float *q, *sinks;
    float *out;
    int64_t q_token, q_head;
} agentrt_attention_layer;

/* out [rows][channels] = x [rows][inputs] times the packed weights, plus bias if there is one. */
void agentrt_linear_f32(const float *weights, const float *bias, const float *x, float *out,
                        int64_t rows, int64_t inputs, int64_t channels, int threads);
void agentrt_linear_int(const void *weights, const float *bias, const float *x, float *out,
                        uint8_t *workspace, int64_t rows, int64_t inputs, int64_t channels, int k,
                        int threads);

/* out = x / sqrt(mean(x^2) + eps) * weight, over rows of `dim`; in x every `heads` of them begin
 * `token_stride` floats apart. With `residual`, x + residual is written to `sum` first and
 * normalised in place of x; `sum` may be x or residual. */
void agentrt_rms_norm(const float *x, const float *residual, float *sum, const float *weight,
                      float *out, int64_t rows, int64_t heads, int64_t token_stride, int64_t dim,
                      float eps, int threads);

/* out [rows][dim] = activation(gate) * up of rows [gate | up]; 0 is silu, 1 gelu by tanh. */
void agentrt_gate(const float *gate_up, float *out, int64_t rows, int64_t dim, int activation,
                  int threads);

/* Rotates the first `dim` values of every head in place, halves paired (RoFormer, arXiv:2104.09864,
 * in the layout of GPT-NeoX); cos and sin are [tokens][dim], the strides of x in floats. */
void agentrt_rotate(float *x, const float *cos, const float *sin, int64_t tokens, int64_t heads,
                    int64_t dim, int64_t token_stride, int64_t head_stride, int threads);

/* Copies k or v, [tokens] rows of [heads][dim] with strides in floats, to the batch's slots. */
void agentrt_store(float *pool, const agentrt_attention_batch *batch, const float *rows,
                   int64_t tokens, int64_t heads, int64_t dim, int64_t token_stride,
                   int64_t head_stride);

/* One layer of a batch: q [tokens][heads][dim] with strides in floats, sinks [heads] or null, out
 * [tokens][heads][v_dim]. */
void agentrt_attention(agentrt_attention_layer *layer, const agentrt_attention_batch *batch,
                       const float *q, int64_t q_token, int64_t q_head, const float *sinks,
                       float *out, float *scratch, int threads);

#endif
