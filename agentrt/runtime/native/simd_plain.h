/* The vector operations of simd.h in plain C, lane by lane. Every float operation rounds as its
 * AVX2 twin does and reductions pair the same lanes, so both builds give the same bits. */

typedef struct { float v[8]; } vf;
typedef union { int32_t v[8]; int16_t h[16]; uint8_t u[32]; int8_t b[32]; } vi;

#define LANES(n) for (int i = 0; i < (n); i++)

static inline vf vf_load(const float *p) { vf r; memcpy(&r, p, sizeof r); return r; }
static inline void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
static inline vf vf_set(float x) { vf r; LANES(8) r.v[i] = x; return r; }
static inline vf vf_add(vf a, vf b) { LANES(8) a.v[i] += b.v[i]; return a; }
static inline vf vf_sub(vf a, vf b) { LANES(8) a.v[i] -= b.v[i]; return a; }
static inline vf vf_mul(vf a, vf b) { LANES(8) a.v[i] *= b.v[i]; return a; }
static inline vf vf_div(vf a, vf b) { LANES(8) a.v[i] /= b.v[i]; return a; }

static inline vf vf_fma(vf a, vf b, vf c) {
    LANES(8) c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}

static inline vf vf_max(vf a, vf b) {
    LANES(8) b.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return b;
}

static inline vf vf_min(vf a, vf b) {
    LANES(8) b.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return b;
}

static inline vf vf_load_n(const float *p, int n) {
    vf r = vf_set(0.0f);
    LANES(n < 8 ? n : 8) r.v[i] = p[i];
    return r;
}

static inline void vf_store_n(float *p, vf v, int n) { LANES(n < 8 ? n : 8) p[i] = v.v[i]; }

static inline vf vf_range(vf x, int from, int to, float other) {
    LANES(8) x.v[i] = i >= from && i < to ? x.v[i] : other;
    return x;
}

static inline vf vf_where_less(vf x, float limit, float then, vf otherwise) {
    LANES(8) otherwise.v[i] = x.v[i] < limit ? then : otherwise.v[i];
    return otherwise;
}

static inline float vf_hsum(vf v) {
    LANES(4) v.v[i] += v.v[i + 4];
    return (v.v[0] + v.v[2]) + (v.v[1] + v.v[3]);
}

static inline float larger(float a, float b) { return a > b ? a : b; }

static inline float vf_hmax(vf v) {
    LANES(4) v.v[i] = larger(v.v[i], v.v[i + 4]);
    return larger(larger(v.v[0], v.v[2]), larger(v.v[1], v.v[3]));
}

/* IEEE 754 binary16 to binary32, exact. */
static inline float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
    float magnitude;
    if (exponent == 0) {
        magnitude = (float)mantissa * 0x1p-24f;
    } else {
        uint32_t wide = exponent == 31 ? 255 : exponent + 112;
        uint32_t bits = (wide << 23) | (mantissa << 13);
        memcpy(&magnitude, &bits, sizeof bits);
    }
    return sign ? -magnitude : magnitude;
}

static inline vf vf_half(const uint16_t *p) {
    uint16_t h[8];
    memcpy(h, p, sizeof h);
    vf r;
    LANES(8) r.v[i] = half_to_float(h[i]);
    return r;
}

static inline vi vf_round(vf v) {
    vi r;
    LANES(8) {
        float whole = rintf(v.v[i]);
        r.v[i] = whole >= -0x1p31f && whole < 0x1p31f ? (int32_t)whole : INT32_MIN;
    }
    return r;
}

static inline vf vf_from_int(vi v) { vf r; LANES(8) r.v[i] = (float)v.v[i]; return r; }

static inline vf vf_pow2(vi n) {
    vf r;
    LANES(8) {
        uint32_t bits = ((uint32_t)n.v[i] + 127u) << 23;
        memcpy(&r.v[i], &bits, sizeof bits);
    }
    return r;
}

static inline vi vf_magnitude(vf v) {
    vi r;
    memcpy(&r, &v, sizeof r);
    LANES(8) r.v[i] &= 0x7fffffff;
    return r;
}

static inline vi vi_zero(void) { vi r = {{0}}; return r; }
static inline vi vi_add(vi a, vi b) { LANES(8) a.v[i] += b.v[i]; return a; }

static inline vi vi_max(vi a, vi b) {
    LANES(8) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}

static inline int32_t vi_hmax(vi v) {
    int32_t best = v.v[0];
    LANES(8) best = v.v[i] > best ? v.v[i] : best;
    return best;
}

static inline int32_t vi_hsum(vi v) {
    int32_t sum = 0;
    LANES(8) sum += v.v[i];
    return sum;
}

static inline int16_t saturate16(int32_t x) {
    return (int16_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);
}

static inline void vi_store16(int16_t *p, vi lo, vi hi) {
    LANES(8) p[i] = saturate16(lo.v[i]);
    LANES(8) p[i + 8] = saturate16(hi.v[i]);
}

static inline void vi_store8(int8_t *p, const vi q[4]) {
    for (int group = 0; group < 4; group++)
        LANES(8) {
            int32_t x = q[group].v[i];
            p[8 * group + i % 4 * 2 + i / 4] = (int8_t)(x > 127 ? 127 : x < -128 ? -128 : x);
        }
}

static inline vi vi_load(const void *p) { vi r; memcpy(&r, p, sizeof r); return r; }
static inline void vi_store(void *p, vi v) { memcpy(p, &v, sizeof v); }
static inline vi vi_widen(const int8_t *p) { vi r; LANES(16) r.h[i] = p[i]; return r; }

static inline vi vi_repeat(const void *p) {
    vi r;
    LANES(8) memcpy(&r.v[i], p, 4);
    return r;
}

static inline vi vi_nibbles16(vi v, int n) {
    LANES(16) v.h[i] = (int16_t)(((uint16_t)v.h[i] >> (4 * n)) & 15);
    return v;
}

static inline vi vi_nibbles8(vi v, int n) {
    LANES(32) v.u[i] = (uint8_t)((v.u[i] >> (4 * n)) & 15);
    return v;
}

static inline vi vi_dot16(vi sum, vi a, vi b) {
    LANES(8) sum.v[i] += a.h[2 * i] * b.h[2 * i] + a.h[2 * i + 1] * b.h[2 * i + 1];
    return sum;
}

static inline vi vi_dot8(vi sum, vi a, vi b) {
    LANES(16) sum.h[i] += (int16_t)(a.u[2 * i] * b.b[2 * i] + a.u[2 * i + 1] * b.b[2 * i + 1]);
    return sum;
}

static inline vi vi_fold(vi v) {
    vi r;
    LANES(8) r.v[i] = v.h[2 * i] + v.h[2 * i + 1];
    return r;
}

static inline void vf_transpose(vf r[8]) {
    LANES(8) for (int j = 0; j < i; j++) {
        float t = r[i].v[j];
        r[i].v[j] = r[j].v[i], r[j].v[i] = t;
    }
}
