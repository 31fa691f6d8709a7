/* Eight lanes: the small vector language every kernel is written in, once.
 *
 * vf is 8 floats; vi 8 int32, 16 int16 or 32 int8. On x86 with AVX2, FMA and F16C an operation is
 * a few instructions; anywhere else, or with AGENTRT_PORTABLE defined, it is a plain loop. Both
 * round the same way, so a kernel gives the same bits under either.
 *
 *   vf_fma(a, b, c)      a * b + c, rounded once
 *   vf_max, vf_min       the second operand where either is NaN (so NaN data goes in second)
 *   vf_load_n, _store_n  the first n lanes; the others read as 0 and are not written
 *   vf_range(x, i, j, o) x in lanes [i, j), o elsewhere
 *   vf_where_less(x, l, t, e)  t where x < l, else e (NaN is not less)
 *   vf_hsum, vf_hmax     over the lanes, pairing i with i + 4, then i + 2, then i + 1
 *   vf_half(p)           8 IEEE half floats, exactly
 *   vf_round(v)          nearest int32, ties to even
 *   vf_pow2(n)           2^n for -126 <= n <= 127
 *   vf_magnitude(v)      |v| as an int that orders like |v|, NaN above infinity
 *   vi_store16(p, a, b)  16 int32 as int16, saturated
 *   vi_store8(p, q)      32 int32 as int8, saturated, in each 8 of them 0 4 1 5 2 6 3 7
 *   vi_repeat(p)         the 4 bytes at p, 8 times
 *   vi_widen(p)          16 int8 as int16
 *   vi_nibbles16(v, n)   bits [4n, 4n + 4) of each int16; vi_nibbles8: of each byte
 *   vi_dot16(s, a, b)    int32 s[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1] of int16 a and b
 *   vi_dot8(s, a, b)     int16 likewise, of unsigned bytes a and signed bytes b; must not overflow
 *   vi_fold(v)           int32 v[2i] + v[2i + 1] of int16 v
 *   vf_transpose(r)      8 x 8 in place
 */
#ifndef AGENTRT_SIMD_H
#define AGENTRT_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(AGENTRT_PORTABLE)
#include "simd_avx2.h"
#else
#include "simd_plain.h"
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Holds a value in its register here. Without it GCC gathers the loads of an unrolled tile first
 * and spills the tile's sums to make room, at half the speed. */
#if defined(__AVX2__) && !defined(AGENTRT_PORTABLE)
#define KEEP(value) __asm__("" : "+x"(value))
#else
#define KEEP(value) (void)(value)
#endif

/* Before a loop of constant length over an array of vectors: only when every such loop is unrolled
 * do the compilers keep the array in registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_BY_4 _Pragma("clang loop unroll_count(4)")
#else
#define UNROLL _Pragma("GCC unroll 12")
#define UNROLL_BY_4 _Pragma("GCC unroll 4")
#endif

#define PREFETCH(address) __builtin_prefetch((address), 0, 2)

/* e^x to about 1 ulp for x in [-87.33, 88]; 0 below, e^88 above, NaN for NaN.
 * e^x = 2^n e^r with |r| <= ln(2) / 2, ln(2) in two parts, and a degree 6 polynomial. Several
 * vectors go through each step together: one by one they would wait for their own last step. */
ALWAYS_INLINE void vf_exp_each(vf *x, int count) {
    static const float terms[] = {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    vf r[4], p[4];
    vi n[4];
    UNROLL
    for (int i = 0; i < count; i++) {
        r[i] = vf_min(vf_set(88.0f), vf_max(vf_set(-87.33f), x[i]));
        n[i] = vf_round(vf_mul(r[i], vf_set(1.44269504f)));
        r[i] = vf_fma(vf_from_int(n[i]), vf_set(-0.693359375f), r[i]);
        r[i] = vf_fma(vf_from_int(n[i]), vf_set(2.12194440e-4f), r[i]);
        p[i] = vf_set(1.0f / 720);
    }
    UNROLL
    for (int term = 0; term < 6; term++)
        UNROLL
        for (int i = 0; i < count; i++) p[i] = vf_fma(p[i], r[i], vf_set(terms[term]));
    UNROLL
    for (int i = 0; i < count; i++)
        x[i] = vf_where_less(x[i], -87.33f, 0.0f, vf_mul(p[i], vf_pow2(n[i])));
}

static inline vf vf_exp(vf x) {
    vf_exp_each(&x, 1);
    return x;
}

static inline float exp_of(float x) {
    float lanes[8];
    vf_store(lanes, vf_exp(vf_set(x)));
    return lanes[0];
}

/* tanh by e^2x; the absolute error is about 1e-7. */
static inline vf vf_tanh(vf x) {
    vf e = vf_exp(vf_add(x, x));
    return vf_sub(vf_set(1.0f), vf_div(vf_set(2.0f), vf_add(e, vf_set(1.0f))));
}

#endif
