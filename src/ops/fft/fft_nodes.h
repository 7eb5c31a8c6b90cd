// The transform of n points for a vector of lines. Included by fft_f32_cpu.c and fft_f64_cpu.c with REAL, VEC, LANES, V(op),
// NAME(name) and load_pairs, store_pairs, store_turned for them.
//
// A point is 2 * LANES reals: the real parts of the lanes, then their imaginary parts. `re` says where the real part lies,
// 0 or LANES; exchanging the two gives the inverse transform.
#define POINT (2 * LANES)

typedef struct NAME(point) { VEC re, im; } NAME(point);
#define PAIR NAME(point)

SIMD_INLINE PAIR NAME(get)(const REAL *p, int re) { return (PAIR){V(load)(p + re), V(load)(p + LANES - re)}; }
SIMD_INLINE void NAME(set)(REAL *p, int re, PAIR x)
{
    V(store)(p + re, x.re);
    V(store)(p + LANES - re, x.im);
}
SIMD_INLINE PAIR NAME(plus)(PAIR x, PAIR y) { return (PAIR){V(add)(x.re, y.re), V(add)(x.im, y.im)}; }
SIMD_INLINE PAIR NAME(minus)(PAIR x, PAIR y) { return (PAIR){V(sub)(x.re, y.re), V(sub)(x.im, y.im)}; }
SIMD_INLINE PAIR NAME(times)(PAIR x, VEC re, VEC im)
{
    return (PAIR){V(fms)(x.re, re, V(mul)(x.im, im)), V(fma)(x.re, im, V(mul)(x.im, re))};
}
SIMD_INLINE PAIR NAME(times1)(PAIR x, const REAL *w) { return NAME(times)(x, V(set1)(w[0]), V(set1)(w[1])); }
// x + i y and x - i y
SIMD_INLINE PAIR NAME(plus_i)(PAIR x, PAIR y) { return (PAIR){V(sub)(x.re, y.im), V(add)(x.im, y.re)}; }
SIMD_INLINE PAIR NAME(minus_i)(PAIR x, PAIR y) { return (PAIR){V(add)(x.re, y.im), V(sub)(x.im, y.re)}; }

// ---------------------------------------------------------------------------------------------------------- butterflies
SIMD_INLINE void NAME(four)(PAIR *x0, PAIR *x1, PAIR *x2, PAIR *x3)
{
    const PAIR a = NAME(plus)(*x0, *x2), b = NAME(minus)(*x0, *x2), c = NAME(plus)(*x1, *x3), d = NAME(minus)(*x1, *x3);
    *x0 = NAME(plus)(a, c), *x2 = NAME(minus)(a, c);
    *x1 = NAME(minus_i)(b, d), *x3 = NAME(plus_i)(b, d);
}

SIMD_INLINE void NAME(eight)(PAIR *x)
{
    const VEC s = V(set1)((REAL)0.70710678118654752440);
    NAME(four)(&x[0], &x[2], &x[4], &x[6]);
    NAME(four)(&x[1], &x[3], &x[5], &x[7]);
    const PAIR a = x[3], b = x[7];
    const PAIR one = {V(mul)(V(add)(a.re, a.im), s), V(mul)(V(sub)(a.im, a.re), s)};
    const PAIR three = {V(mul)(V(sub)(b.im, b.re), s), V(mul)(V(add)(b.im, b.re), s)};  // the conjugate of w^3 b
    const PAIR e0 = x[0], e1 = x[2], e2 = x[4], e3 = x[6], o0 = x[1], o2 = x[5];
    x[0] = NAME(plus)(e0, o0), x[4] = NAME(minus)(e0, o0);
    x[1] = NAME(plus)(e1, one), x[5] = NAME(minus)(e1, one);
    x[2] = NAME(minus_i)(e2, o2), x[6] = NAME(plus_i)(e2, o2);
    x[3] = (PAIR){V(add)(e3.re, three.re), V(sub)(e3.im, three.im)};
    x[7] = (PAIR){V(sub)(e3.re, three.re), V(add)(e3.im, three.im)};
}

// An odd radix: sums and differences of the points i and r - i, times cosines and sines.
SIMD_INLINE void NAME(odd)(PAIR *x, int r, const REAL *roots)
{
    const PAIR x0 = x[0];
    const int half = r / 2;
    PAIR total = x0;
#pragma GCC unroll 3
    for (int i = 1; i <= half; i++) {
        const PAIR a = x[i], b = x[r - i];
        x[i] = NAME(plus)(a, b), x[r - i] = NAME(minus)(a, b);
        total = NAME(plus)(total, x[i]);
    }
    PAIR even[FFT_RADIX_MOST / 2], odd[FFT_RADIX_MOST / 2];
#pragma GCC unroll 3
    for (int q = 1; q <= half; q++) {
        PAIR e = x0, o = {V(zero)(), V(zero)()};
#pragma GCC unroll 3
        for (int i = 1; i <= half; i++) {
            const VEC c = V(set1)(roots[2 * (i * q % r)]), s = V(set1)(-roots[2 * (i * q % r) + 1]);
            e = (PAIR){V(fma)(x[i].re, c, e.re), V(fma)(x[i].im, c, e.im)};
            o = (PAIR){V(fma)(x[r - i].re, s, o.re), V(fma)(x[r - i].im, s, o.im)};
        }
        even[q - 1] = e, odd[q - 1] = o;
    }
    x[0] = total;
#pragma GCC unroll 3
    for (int q = 1; q <= half; q++) {
        x[q] = NAME(minus_i)(even[q - 1], odd[q - 1]);
        x[r - q] = NAME(plus_i)(even[q - 1], odd[q - 1]);
    }
}

SIMD_INLINE void NAME(butterfly)(PAIR *x, int r, const REAL *roots)
{
    if (r == 2) {
        const PAIR a = x[0], b = x[1];
        x[0] = NAME(plus)(a, b), x[1] = NAME(minus)(a, b);
    } else if (r == 4) NAME(four)(&x[0], &x[1], &x[2], &x[3]);
    else if (r == 8) NAME(eight)(x);
    else if (r > 1) NAME(odd)(x, r, roots);
}

// The last level: r points `step` points apart become r adjacent ones.
SIMD_INLINE void NAME(leaf)(int r, const REAL *in, int64_t step, REAL *out, const REAL *roots, int re)
{
    PAIR x[FFT_RADIX_MOST];
#pragma GCC unroll 8
    for (int i = 0; i < r; i++) x[i] = NAME(get)(in + i * step * POINT, re);
    NAME(butterfly)(x, r, roots);
#pragma GCC unroll 8
    for (int i = 0; i < r; i++) NAME(set)(out + i * POINT, re, x[i]);
}

// r transforms of m points become one of r * m, in place.
SIMD_INLINE void NAME(combine)(int r, int64_t m, REAL *x, const REAL *w, const REAL *roots, int re)
{
    for (int64_t k = 0; k < m; k++, x += POINT, w += 2 * (r - 1)) {
        PAIR y[FFT_RADIX_MOST];
        y[0] = NAME(get)(x, re);
#pragma GCC unroll 8
        for (int i = 1; i < r; i++) y[i] = NAME(times1)(NAME(get)(x + i * m * POINT, re), w + 2 * (i - 1));
        NAME(butterfly)(y, r, roots);
#pragma GCC unroll 8
        for (int i = 0; i < r; i++) NAME(set)(x + i * m * POINT, re, y[i]);
    }
}

// One function for each radix, so that each is compiled on its own.
typedef struct NAME(work) { const REAL *in; int64_t step; REAL *out; const REAL *twiddle, *roots; int64_t m; int re; } NAME(work);
#define RADIX(R)                                                                                                          \
    static __attribute__((noinline)) void NAME(leaf_##R)(const NAME(work) *k) { NAME(leaf)(R, k->in, k->step, k->out, k->roots, k->re); } \
    static __attribute__((noinline)) void NAME(combine_##R)(const NAME(work) *k) { NAME(combine)(R, k->m, k->out, k->twiddle, k->roots, k->re); }
RADIX(2) RADIX(3) RADIX(4) RADIX(5) RADIX(7) RADIX(8)
#undef RADIX
static void NAME(leaf_any)(int r, const NAME(work) *k) { NAME(leaf)(r, k->in, k->step, k->out, k->roots, k->re); }
static void NAME(combine_any)(int r, const NAME(work) *k) { NAME(combine)(r, k->m, k->out, k->twiddle, k->roots, k->re); }

static void NAME(convolve)(const fft_plan *p, const fft_node *t, const REAL *in, int64_t step, REAL *out, REAL *spare, int re);

// Level `level` of a node and all after it.
static void NAME(descend)(const fft_plan *p, const fft_node *t, int level, const REAL *in, int64_t step, REAL *out, REAL *spare, int re)
{
    const int r = t->radix[level];
    NAME(work) k = {in, step, out, fft_table(p, t->twiddle[level]), fft_table(p, t->roots[level]), t->size[level] / r, re};
    if (level == t->levels - 1) {
        if (t->inner >= 0) NAME(convolve)(p, t, in, step, out, spare, re);
        else if (r == 8) NAME(leaf_8)(&k);
        else if (r == 4) NAME(leaf_4)(&k);
        else if (r == 2) NAME(leaf_2)(&k);
        else if (r == 3) NAME(leaf_3)(&k);
        else if (r == 5) NAME(leaf_5)(&k);
        else if (r == 7) NAME(leaf_7)(&k);
        else NAME(leaf_any)(r, &k);
        return;
    }
    for (int i = 0; i < r; i++) NAME(descend)(p, t, level + 1, in + i * step * POINT, step * r, out + i * k.m * POINT, spare, re);
    if (r == 8) NAME(combine_8)(&k);
    else if (r == 4) NAME(combine_4)(&k);
    else if (r == 2) NAME(combine_2)(&k);
    else if (r == 3) NAME(combine_3)(&k);
    else if (r == 5) NAME(combine_5)(&k);
    else if (r == 7) NAME(combine_7)(&k);
    else NAME(combine_any)(r, &k);
}

static void NAME(transform)(const fft_plan *p, int node, const REAL *in, REAL *out, REAL *spare, int re)
{
    NAME(descend)(p, &p->node[node], 0, in, 1, out, spare, re);
}

// A prime length: the cyclic convolution of Rader with p - 1 points, or Bluestein's with at least 2p - 1.
static void NAME(convolve)(const fft_plan *p, const fft_node *t, const REAL *in, int64_t step, REAL *out, REAL *spare, int re)
{
    const int64_t n = t->radix[t->levels - 1], m = p->node[t->inner].n;
    const REAL *spectrum = fft_table(p, t->spectrum), *chirp = fft_table(p, t->order);
    const int32_t *order = fft_table(p, t->order);
    REAL *x = spare, *y = spare + m * POINT;
    const PAIR first = NAME(get)(in, re), nothing = {V(zero)(), V(zero)()};
    for (int64_t j = 0; j < m; j++) {
        PAIR v = nothing;
        if (t->rader) v = NAME(get)(in + order[j] * step * POINT, re);
        else if (j < n) v = NAME(times1)(NAME(get)(in + j * step * POINT, re), chirp + 2 * j);
        NAME(set)(x + j * POINT, re, v);
    }
    NAME(transform)(p, t->inner, x, y, NULL, re);
    const PAIR sum = NAME(get)(y, re);
    for (int64_t j = 0; j < m; j++) NAME(set)(y + j * POINT, re, NAME(times1)(NAME(get)(y + j * POINT, re), spectrum + 2 * j));
    if (t->rader) NAME(set)(y, re, NAME(plus)(NAME(get)(y, re), first));
    NAME(transform)(p, t->inner, y, x, NULL, LANES - re);
    if (t->rader) {
        NAME(set)(out, re, NAME(plus)(first, sum));
        for (int64_t j = 0; j < m; j++) NAME(set)(out + order[m + j] * POINT, re, NAME(get)(x + j * POINT, re));
    } else {
        for (int64_t j = 0; j < n; j++) NAME(set)(out + j * POINT, re, NAME(times1)(NAME(get)(x + j * POINT, re), chirp + 2 * j));
    }
}

// ----------------------------------------------------------------------------------------------------------- real lines
// The transform z of n / 2 pairs (x[2j], x[2j + 1]) becomes that of x, n / 2 + 1 points, in place.
static void NAME(unpack_real)(const fft_plan *p, REAL *z)
{
    const int64_t h = p->real_n / 2;
    const REAL *w = fft_table(p, p->half);
    const VEC half = V(set1)((REAL)0.5);
    const PAIR first = NAME(get)(z, 0);
    NAME(set)(z, 0, (PAIR){V(add)(first.re, first.im), V(zero)()});
    NAME(set)(z + h * POINT, 0, (PAIR){V(sub)(first.re, first.im), V(zero)()});
    for (int64_t k = 1; 2 * k <= h; k++) {
        REAL *a = z + k * POINT, *b = z + (h - k) * POINT;
        const PAIR x = NAME(get)(a, 0), y = NAME(get)(b, 0);
        const PAIR even = {V(mul)(half, V(add)(x.re, y.re)), V(mul)(half, V(sub)(x.im, y.im))};
        const PAIR odd = NAME(times1)((PAIR){V(mul)(half, V(add)(x.im, y.im)), V(mul)(half, V(sub)(y.re, x.re))}, w + 2 * k);
        NAME(set)(b, 0, (PAIR){V(sub)(even.re, odd.re), V(sub)(odd.im, even.im)});
        NAME(set)(a, 0, NAME(plus)(even, odd));
    }
}

// The inverse: n / 2 + 1 points of a spectrum become the spectrum of the pairs, times two. Imaginary parts of both ends are
// ignored.
static void NAME(pack_real)(const fft_plan *p, REAL *z)
{
    const int64_t h = p->real_n / 2;
    const REAL *w = fft_table(p, p->half);
    const PAIR first = NAME(get)(z, 0), last = NAME(get)(z + h * POINT, 0);
    NAME(set)(z, 0, (PAIR){V(add)(first.re, last.re), V(sub)(first.re, last.re)});
    for (int64_t k = 1; 2 * k <= h; k++) {
        REAL *a = z + k * POINT, *b = z + (h - k) * POINT;
        const PAIR x = NAME(get)(a, 0), y = NAME(get)(b, 0);
        const PAIR even = {V(add)(x.re, y.re), V(sub)(x.im, y.im)};
        const PAIR odd = NAME(times)((PAIR){V(sub)(x.re, y.re), V(add)(x.im, y.im)}, V(set1)(w[2 * k]), V(set1)(-w[2 * k + 1]));
        const PAIR up = NAME(plus_i)(even, odd), down = NAME(minus_i)(even, odd);
        NAME(set)(b, 0, (PAIR){down.re, V(sub)(V(zero)(), down.im)});
        NAME(set)(a, 0, up);
    }
}

// Points of real lines: [h + 1] from buffer x by way of buffer y; the result lies in the one returned.
static REAL *NAME(real_forward)(const fft_plan *p, REAL *x, REAL *y, REAL *spare)
{
    NAME(transform)(p, 0, x, y, spare, 0);
    if (p->real_n % 2 == 0) NAME(unpack_real)(p, y);
    return y;
}

static REAL *NAME(real_inverse)(const fft_plan *p, REAL *x, REAL *y, REAL *spare)
{
    const int64_t n = p->real_n;
    if (n % 2 == 0) NAME(pack_real)(p, x);
    else {
        V(store)(x + LANES, V(zero)());
        for (int64_t k = 1; 2 * k < n; k++) {
            const PAIR v = NAME(get)(x + k * POINT, 0);
            NAME(set)(x + (n - k) * POINT, 0, (PAIR){v.re, V(sub)(V(zero)(), v.im)});
        }
    }
    NAME(transform)(p, 0, x, y, spare, LANES);
    return y;
}
