/* The vector operations of simd.h on AVX2, FMA and F16C. Contracts are in simd.h. */
#include <immintrin.h>

typedef __m256 vf;
typedef __m256i vi;

static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
static inline vf vf_set(float x) { return _mm256_set1_ps(x); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }

static inline vi lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, lanes_below(n)); }
static inline void vf_store_n(float *p, vf v, int n) { _mm256_maskstore_ps(p, lanes_below(n), v); }

static inline vf vf_range(vf x, int from, int to, float other) {
    vi inside = _mm256_andnot_si256(lanes_below(from), lanes_below(to));
    return _mm256_blendv_ps(vf_set(other), x, _mm256_castsi256_ps(inside));
}

static inline vf vf_where_less(vf x, float limit, float then, vf otherwise) {
    return _mm256_blendv_ps(otherwise, vf_set(then), _mm256_cmp_ps(x, vf_set(limit), _CMP_LT_OQ));
}

static inline float vf_hsum(vf v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline float vf_hmax(vf v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline vf vf_half(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vi vf_round(vf v) { return _mm256_cvtps_epi32(v); }
static inline vf vf_from_int(vi v) { return _mm256_cvtepi32_ps(v); }

static inline vf vf_pow2(vi n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

static inline vi vf_magnitude(vf v) {
    return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
}

static inline vi vi_zero(void) { return _mm256_setzero_si256(); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }

static inline int32_t vi_hmax(vi v) {
    __m128i s = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static inline int32_t vi_hsum(vi v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static inline void vi_store16(int16_t *p, vi lo, vi hi) {
    vi packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8);
    _mm256_storeu_si256((__m256i *)p, packed);
}

static inline void vi_store8(int8_t *p, const vi q[4]) {
    vi bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm_storeu_si128((__m128i *)p, _mm_unpacklo_epi8(low, high));
    _mm_storeu_si128((__m128i *)(p + 16), _mm_unpackhi_epi8(low, high));
}

static inline vi vi_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void vi_store(void *p, vi v) { _mm256_storeu_si256((__m256i *)p, v); }

static inline vi vi_repeat(const void *p) {
    int32_t four_bytes;
    memcpy(&four_bytes, p, sizeof four_bytes);
    return _mm256_set1_epi32(four_bytes);
}

static inline vi vi_widen(const int8_t *p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

static inline vi vi_nibbles16(vi v, int n) {
    return _mm256_and_si256(_mm256_srli_epi16(v, 4 * n), _mm256_set1_epi16(15));
}

static inline vi vi_nibbles8(vi v, int n) {
    return _mm256_and_si256(_mm256_srli_epi16(v, 4 * n), _mm256_set1_epi8(15));
}

static inline vi vi_dot16(vi sum, vi a, vi b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

static inline vi vi_dot8(vi sum, vi a, vi b) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
}

static inline vi vi_fold(vi v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }

static inline __attribute__((always_inline)) void vf_transpose(vf r[8]) {
    vf a0 = _mm256_unpacklo_ps(r[0], r[1]), a1 = _mm256_unpackhi_ps(r[0], r[1]);
    vf a2 = _mm256_unpacklo_ps(r[2], r[3]), a3 = _mm256_unpackhi_ps(r[2], r[3]);
    vf a4 = _mm256_unpacklo_ps(r[4], r[5]), a5 = _mm256_unpackhi_ps(r[4], r[5]);
    vf a6 = _mm256_unpacklo_ps(r[6], r[7]), a7 = _mm256_unpackhi_ps(r[6], r[7]);
    vf b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xee);
    vf b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xee);
    vf b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xee);
    vf b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xee);
    r[0] = _mm256_permute2f128_ps(b0, b4, 0x20), r[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
    r[1] = _mm256_permute2f128_ps(b1, b5, 0x20), r[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
    r[2] = _mm256_permute2f128_ps(b2, b6, 0x20), r[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
    r[3] = _mm256_permute2f128_ps(b3, b7, 0x20), r[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}
