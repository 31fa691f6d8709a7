/* What the products of linear_int.c multiply by: each row, by itself, in blocks of 32 integers.
 *
 * x ~ s * a, |a| <= top, s = max|x| / top, where top is 32767. The mixed kind has two bytes of a
 * value apart, a = c + f / 254 with c and f in -127..127 and s = max|x| / 127: coarse everywhere,
 * fine in the blocks that stand out of their row, f = 0 in the others. Most models have a few
 * channels much larger than the rest, and rounding to 8 bits loses most in the blocks they are in. */
#ifndef AGENTRT_ACTIVATIONS_H
#define AGENTRT_ACTIVATIONS_H

#include "simd.h"

typedef enum { Q8 = 0, Q4 = 1, Q4_MIXED = 2 } kind; /* of a product */

enum { BLOCK = 32, FINE_STEPS = 254 };

typedef struct {
    uint8_t *coarse; /* [rows][blocks][32] of a, int16, or of c, int8 in the order of vi_store8 */
    uint8_t *fine;   /* [rows][blocks][32] of f, likewise; mixed only, as `wide` */
    uint8_t *wide;   /* [tiles][blocks]: whether a row of the tile has fine bytes */
    float *scales;   /* [rows][blocks][2]: s, s * sum(a) */
    int64_t rows, blocks;
} activations;

ALWAYS_INLINE int64_t act_bytes(kind k) { return k == Q4_MIXED ? BLOCK : 2 * BLOCK; }

int64_t activation_bytes(int64_t rows, int64_t blocks, kind k);

/* x [rows][blocks][32], put into `memory` of `activation_bytes`, for tiles of so many rows. */
activations quantise(const float *x, uint8_t *memory, int64_t rows, int64_t blocks, kind k,
                     int64_t tile, int threads);

#endif
