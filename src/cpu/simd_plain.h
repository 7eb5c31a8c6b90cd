// One part = four lanes in plain C, for machines that have no part file of their own, and to check the others against.
// Written for sameness, not speed. Included by simd.h only; -DNBX_SIMD_PLAIN chooses it anywhere.
#include <math.h>

#define NBX_SIMD_PARTS 4
#define NBX_SIMD_PART_LANES 4

typedef struct { float v[4]; } pf;
typedef struct { int32_t v[4]; } pi;
typedef struct { double v[2]; } pd;
typedef struct { int64_t v[2]; } pl;
typedef struct { bool v[4]; } pm;
typedef struct { bool v[2]; } pq;

// A list of lane-wise functions: name, result type, argument types, the expression for one lane.
#define LANES(T) (int)(sizeof((T){{0}}.v) / sizeof((T){{0}}.v[0]))
#define LANE1(NAME, R, A, EXPR) \
    static inline R NAME(A X) { R r; for (int i = 0; i < LANES(R); i++) { const __typeof__(X.v[0]) x = X.v[i]; r.v[i] = EXPR; } return r; }
#define LANE2(NAME, R, A, EXPR) \
    static inline R NAME(A X, A Y) { R r; for (int i = 0; i < LANES(R); i++) { const __typeof__(X.v[0]) x = X.v[i], y = Y.v[i]; r.v[i] = EXPR; } return r; }
#define LANE3(NAME, R, EXPR) \
    static inline R NAME(R X, R Y, R Z) { R r; for (int i = 0; i < LANES(R); i++) { const __typeof__(X.v[0]) x = X.v[i], y = Y.v[i], z = Z.v[i]; r.v[i] = EXPR; } return r; }
#define LANE_SELECT(NAME, M, R) \
    static inline R NAME(M m, R a, R b) { for (int i = 0; i < LANES(R); i++) if (m.v[i]) b.v[i] = a.v[i]; return b; }
#define LANE_SET(NAME, R, T) static inline R NAME(T x) { R r; for (int i = 0; i < LANES(R); i++) r.v[i] = x; return r; }
#define LANE_LOAD(NAME, R, T) static inline R NAME(const T *p) { R r; for (int i = 0; i < LANES(R); i++) r.v[i] = p[i]; return r; }
#define LANE_STORE(NAME, R, T) static inline void NAME(T *p, R x) { for (int i = 0; i < LANES(R); i++) p[i] = (T)x.v[i]; }
#define LANE_SHIFT(NAME, R, EXPR) \
    static inline R NAME(R X, int n) { R r; for (int i = 0; i < LANES(R); i++) { const __typeof__(X.v[0]) x = X.v[i]; r.v[i] = EXPR; } return r; }

static inline int32_t float_bits(float x) { int32_t r; memcpy(&r, &x, 4); return r; }
static inline float bits_float(int32_t x) { float r; memcpy(&r, &x, 4); return r; }
static inline int64_t double_bits(double x) { int64_t r; memcpy(&r, &x, 8); return r; }
static inline double bits_double(int64_t x) { double r; memcpy(&r, &x, 8); return r; }
static inline int32_t to_int(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN; }

LANE_SET(pf_set1, pf, float)
LANE_LOAD(pf_load, pf, float)
LANE_STORE(pf_store, pf, float)
LANE_STORE(pf_stream, pf, float)
static inline void stream_end(void) {}
static inline pf pf_load_first(const float *p, int n)
{
    pf r = {{0, 0, 0, 0}};
    for (int i = 0; i < n; i++) r.v[i] = p[i];
    return r;
}
static inline void pf_store_first(float *p, pf x, int n)
{
    for (int i = 0; i < n; i++) p[i] = x.v[i];
}
LANE2(pf_add, pf, pf, x + y)
LANE2(pf_sub, pf, pf, x - y)
LANE2(pf_mul, pf, pf, x * y)
LANE2(pf_div, pf, pf, x / y)
LANE3(pf_fma, pf, fmaf(x, y, z))
LANE3(pf_fnma, pf, fmaf(-x, y, z))
LANE3(pf_fms, pf, fmaf(x, y, -z))
LANE1(pf_sqrt, pf, pf, sqrtf(x))
LANE1(pf_floor, pf, pf, floorf(x))
LANE1(pf_ceil, pf, pf, ceilf(x))
LANE1(pf_trunc, pf, pf, truncf(x))
LANE1(pf_rint, pf, pf, rintf(x))
LANE2(pf_min_fast, pf, pf, x < y ? x : y)
LANE2(pf_max_fast, pf, pf, x > y ? x : y)
LANE2(pf_eq, pm, pf, x == y)
LANE2(pf_ne, pm, pf, x != y)
LANE2(pf_lt, pm, pf, x < y)
LANE2(pf_le, pm, pf, x <= y)
LANE1(pf_isnan, pm, pf, x != x)
LANE_SELECT(pf_select, pm, pf)
static inline pf pf_gather(const float *base, pi index)
{
    pf r;
    for (int i = 0; i < 4; i++) r.v[i] = base[index.v[i]];
    return r;
}
LANE1(pf_bits, pi, pf, float_bits(x))
LANE1(pi_float_bits, pf, pi, bits_float(x))
LANE1(pf_to_pi_trunc, pi, pf, to_int(x))
LANE1(pf_to_pi_round, pi, pf, to_int(rintf(x)))
LANE1(pi_to_pf, pf, pi, (float)x)

LANE_SET(pi_set1, pi, int32_t)
LANE_LOAD(pi_load, pi, int32_t)
LANE_STORE(pi_store, pi, int32_t)
LANE2(pi_add, pi, pi, (int32_t)((uint32_t)x + (uint32_t)y))
LANE2(pi_sub, pi, pi, (int32_t)((uint32_t)x - (uint32_t)y))
LANE2(pi_mul, pi, pi, (int32_t)((uint32_t)x * (uint32_t)y))
LANE2(pi_and, pi, pi, x & y)
LANE2(pi_or, pi, pi, x | y)
LANE2(pi_xor, pi, pi, x ^ y)
LANE2(pi_andnot, pi, pi, ~x & y)
LANE_SHIFT(pi_shl, pi, (int32_t)((uint32_t)x << n))
LANE_SHIFT(pi_shr, pi, (int32_t)((uint32_t)x >> n))
LANE_SHIFT(pi_sar, pi, x >> n)
LANE2(pi_shlv, pi, pi, (uint32_t)y < 32 ? (int32_t)((uint32_t)x << y) : 0)
LANE2(pi_shrv, pi, pi, (uint32_t)y < 32 ? (int32_t)((uint32_t)x >> y) : 0)
LANE2(pi_eq, pm, pi, x == y)
LANE2(pi_gt, pm, pi, x > y)
LANE_SELECT(pi_select, pm, pi)
LANE2(pi_min, pi, pi, x < y ? x : y)
LANE2(pi_max, pi, pi, x > y ? x : y)
LANE_LOAD(pi_load_u16, pi, uint16_t)
LANE_LOAD(pi_load_i16, pi, int16_t)
LANE_LOAD(pi_load_u8, pi, uint8_t)
LANE_LOAD(pi_load_i8, pi, int8_t)
LANE_STORE(pi_store_u16, pi, uint16_t)
LANE_STORE(pi_store_u8, pi, uint8_t)

LANE2(pm_and, pm, pm, x && y)
LANE2(pm_or, pm, pm, x || y)
LANE2(pm_xor, pm, pm, x != y)
LANE1(pm_not, pm, pm, !x)
static inline uint32_t pm_bits(pm x) { return x.v[0] | 2u * x.v[1] | 4u * x.v[2] | 8u * x.v[3]; }
static inline pf pf_load_where(const float *p, pm m)
{
    pf r = {{0, 0, 0, 0}};
    for (int i = 0; i < 4; i++)
        if (m.v[i]) r.v[i] = p[i];
    return r;
}

LANE_SET(pd_set1, pd, double)
LANE_LOAD(pd_load, pd, double)
LANE_STORE(pd_store, pd, double)
static inline pd pd_load_first(const double *p, int n)
{
    return (pd){{n > 0 ? p[0] : 0, n > 1 ? p[1] : 0}};
}
static inline void pd_store_first(double *p, pd x, int n)
{
    for (int i = 0; i < n; i++) p[i] = x.v[i];
}
LANE2(pd_add, pd, pd, x + y)
LANE2(pd_sub, pd, pd, x - y)
LANE2(pd_mul, pd, pd, x * y)
LANE2(pd_div, pd, pd, x / y)
LANE3(pd_fma, pd, fma(x, y, z))
LANE3(pd_fnma, pd, fma(-x, y, z))
LANE3(pd_fms, pd, fma(x, y, -z))
LANE1(pd_sqrt, pd, pd, sqrt(x))
LANE1(pd_floor, pd, pd, floor(x))
LANE1(pd_ceil, pd, pd, ceil(x))
LANE1(pd_trunc, pd, pd, trunc(x))
LANE1(pd_rint, pd, pd, rint(x))
LANE2(pd_min_fast, pd, pd, x < y ? x : y)
LANE2(pd_max_fast, pd, pd, x > y ? x : y)
LANE2(pd_eq, pq, pd, x == y)
LANE2(pd_ne, pq, pd, x != y)
LANE2(pd_lt, pq, pd, x < y)
LANE2(pd_le, pq, pd, x <= y)
LANE1(pd_isnan, pq, pd, x != x)
LANE_SELECT(pd_select, pq, pd)
LANE1(pd_bits, pl, pd, double_bits(x))
LANE1(pl_double_bits, pd, pl, bits_double(x))

LANE_SET(pl_set1, pl, int64_t)
LANE2(pl_add, pl, pl, (int64_t)((uint64_t)x + (uint64_t)y))
LANE2(pl_sub, pl, pl, (int64_t)((uint64_t)x - (uint64_t)y))
LANE2(pl_and, pl, pl, x & y)
LANE2(pl_or, pl, pl, x | y)
LANE2(pl_xor, pl, pl, x ^ y)
LANE2(pl_andnot, pl, pl, ~x & y)
LANE_SHIFT(pl_shl, pl, (int64_t)((uint64_t)x << n))
LANE_SHIFT(pl_shr, pl, (int64_t)((uint64_t)x >> n))
LANE_SELECT(pl_select, pq, pl)
LANE2(pl_eq, pq, pl, x == y)

LANE2(pq_and, pq, pq, x && y)
LANE2(pq_or, pq, pq, x || y)
LANE2(pq_xor, pq, pq, x != y)
LANE1(pq_not, pq, pq, !x)
static inline uint32_t pq_bits(pq x) { return x.v[0] | 2u * x.v[1]; }

static inline pd pf_low_pd(pf x) { return (pd){{(double)x.v[0], (double)x.v[1]}}; }
static inline pd pf_high_pd(pf x) { return (pd){{(double)x.v[2], (double)x.v[3]}}; }
static inline pf pd_pair_pf(pd a, pd b) { return (pf){{(float)a.v[0], (float)a.v[1], (float)b.v[0], (float)b.v[1]}}; }
static inline pq pm_low_pq(pm x) { return (pq){{x.v[0], x.v[1]}}; }
static inline pq pm_high_pq(pm x) { return (pq){{x.v[2], x.v[3]}}; }
static inline pm pq_pair_pm(pq a, pq b) { return (pm){{a.v[0], a.v[1], b.v[0], b.v[1]}}; }

static inline float v_tree_add(pf a, pf b, pf c, pf d)
{
    const pf q = pf_add(pf_add(a, c), pf_add(b, d));
    return (q.v[0] + q.v[2]) + (q.v[1] + q.v[3]);
}
static inline double vd_tree_add(pd a, pd b, pd c, pd d)
{
    const pd q = pd_add(pd_add(a, c), pd_add(b, d));
    return q.v[0] + q.v[1];
}

static inline void pf_transpose(pf *rows)
{
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++) {
            const float swapped = rows[i].v[j];
            rows[i].v[j] = rows[j].v[i];
            rows[j].v[i] = swapped;
        }
    }
}

#include "cpu/simd_f16_soft.h"

// Pairs taken apart and put together: even and odd lanes of x followed by y; lanes of x and y in turn, first and second half.
static inline pf pf_even(pf x, pf y) { return (pf){{x.v[0], x.v[2], y.v[0], y.v[2]}}; }
static inline pf pf_odd(pf x, pf y) { return (pf){{x.v[1], x.v[3], y.v[1], y.v[3]}}; }
static inline pf pf_zip_low(pf x, pf y) { return (pf){{x.v[0], y.v[0], x.v[1], y.v[1]}}; }
static inline pf pf_zip_high(pf x, pf y) { return (pf){{x.v[2], y.v[2], x.v[3], y.v[3]}}; }
static inline pd pd_even(pd x, pd y) { return (pd){{x.v[0], y.v[0]}}; }
static inline pd pd_odd(pd x, pd y) { return (pd){{x.v[1], y.v[1]}}; }
static inline pd pd_zip_low(pd x, pd y) { return (pd){{x.v[0], y.v[0]}}; }
static inline pd pd_zip_high(pd x, pd y) { return (pd){{x.v[1], y.v[1]}}; }
