// How a length is transformed: the cheapest of three methods by a rough count of operations, and its tables. Tables are
// computed in double, each root from an angle of at most pi / 4.
#include "ops/fft/fft.h"

#include <math.h>
#include <string.h>

#include "core/context.h"
#include "core/memory.h"

#define PI 3.14159265358979323846
#define DIRECT_PRIME 19  // larger ones become convolutions where that can be

// ---------------------------------------------------------------------------------------------------------------- cost
typedef struct fft_radices {
    int levels;
    int32_t radix[FFT_LEVELS];
    int64_t prime;  // of the last level, when that is a convolution; else 0
} fft_radices;

static bool is_prime(int64_t n) {
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0) return false;
    return n > 1;
}

static void add_radix(fft_radices *f, int64_t radix) { f->radix[f->levels++] = (int32_t)radix; }

// Odd radices first, eights last, where their twiddle factors are fewest. false: two large primes, or too large.
static bool factor(int64_t n, fft_radices *f) {
    int twos = 0;
    memset(f, 0, sizeof *f);
    if (n > INT32_MAX) return false;
    for (; n > 1 && n % 2 == 0; n /= 2) twos++;
    int64_t large = 0;
    for (int64_t d = 3; d <= FFT_RADIX_MOST && n > 1; d += 2)
        for (; n % d == 0; n /= d) {
            if (f->levels > FFT_LEVELS - 12) return false;
            if (d > DIRECT_PRIME && !large) large = d;
            else add_radix(f, d);
        }
    if (n > 1 && !is_prime(n)) return false;
    if (n > 1) {
        if (large) add_radix(f, large);
        large = n;
    }
    if (twos == 1) add_radix(f, 2);
    const int fours = twos == 1 ? 0 : twos % 3 == 0 ? 0 : twos % 3 == 1 ? 2 : 1;
    for (int i = 0; i < fours; i++) add_radix(f, 4);
    for (int i = 2 * fours + (twos == 1); i < twos; i += 3) add_radix(f, 8);
    f->prime = large;
    if (large) add_radix(f, large);
    if (!f->levels) add_radix(f, 1);
    return true;
}

static double radix_cost(int64_t r) {
    return r == 1 ? 1 : r == 2 ? 3 : r == 3 ? 4 : r == 4 ? 4.5 : r == 5 ? 7 : r == 7 ? 9 : r == 8 ? 6.5 : 3 + 1.6 * (double)r;
}

// Operations a point of a transform without large primes; infinite for others.
static double smooth_cost(int64_t n) {
    fft_radices f;
    double cost = 0;
    if (!factor(n, &f) || f.prime) return INFINITY;
    for (int i = 0; i < f.levels; i++) cost += radix_cost(f.radix[i]);
    return cost * (n <= 128 ? 1 : n <= 1024 ? 1.15 : n <= 4096 ? 1.5 : 3);
}

static bool rader_suits(int64_t prime) { return smooth_cost(prime - 1) < 40; }

// The cheapest length of at least `least` points made of 2, 3 and 5.
static int64_t convolution_length(int64_t least, double (*cost)(int64_t)) {
    int64_t best = 0;
    double lowest = INFINITY;
    for (int64_t five = 1; five <= 25; five *= 5)
        for (int64_t three = five; three <= 27 * five; three *= 3) {
            int64_t m = three;
            while (m < least) m *= 2;
            const double c = (double)m * cost(m);
            if (c < lowest) lowest = c, best = m;
        }
    return best;
}

static double node_cost(int64_t n) {
    fft_radices f;
    double cost = 0;
    if (!factor(n, &f)) return INFINITY;
    if (!f.prime) return smooth_cost(n);
    if (f.prime > 65536) return INFINITY;
    for (int i = 0; i < f.levels - 1; i++) cost += radix_cost(f.radix[i]);
    if (rader_suits(f.prime)) return cost + 2 * smooth_cost(f.prime - 1) + 6;
    const int64_t m = convolution_length(2 * f.prime - 1, smooth_cost);
    return cost + (2 * smooth_cost(m) + 6) * (double)m / (double)f.prime;
}

static double waste(int64_t count, int lanes) { return count < 1 ? 1 : (double)((count + lanes - 1) / lanes * lanes) / (double)count; }

static double split_cost(int64_t n, fft_kind kind, int lanes, int64_t *n1) {
    double lowest = INFINITY;
    for (int64_t d = 4; d <= n / 4 && d <= 32768; d++) {
        if (n % d) continue;
        const int64_t other = n / d;
        if (other > 32768 && n < (int64_t)1 << 29) continue;
        const double half = kind == FFT_C2C ? 1 : 0.5;
        const double c = half * (node_cost(d) * waste(other, lanes) + node_cost(other) * waste(kind == FFT_C2C ? d : d / 2 + 1, lanes) + 7);
        if (c < lowest) lowest = c, *n1 = d;
    }
    return lowest;
}

static double split_cost_f32(int64_t n) {
    int64_t n1;
    return split_cost(n, FFT_C2C, 16, &n1);
}

// --------------------------------------------------------------------------------------------------------------- tables
typedef struct builder {
    fft_plan *plan;
    char *base;  // NULL while sizes are found
    int64_t at;
    int next_node;
} builder;

typedef struct pair { double re, im; } pair;

static int64_t place(builder *b, int64_t bytes) {
    const int64_t at = b->at;
    b->at += (bytes + 63) & ~(int64_t)63;
    return at;
}

static int64_t place_reals(builder *b, int64_t count) { return place(b, count * (b->plan->double_precision ? 8 : 4)); }

static void put(const builder *b, int64_t table, int64_t index, pair x) {
    if (b->plan->double_precision) ((pair *)(void *)(b->base + table))[index] = x;
    else {
        float *to = (float *)(void *)(b->base + table) + 2 * index;
        to[0] = (float)x.re, to[1] = (float)x.im;
    }
}

// exp(-2 pi i k / n) for 0 <= k < n.
static pair root(int64_t k, int64_t n) {
    int64_t a = 8 * k;
    const bool conjugate = a > 4 * n;
    if (conjugate) a = 8 * n - a;
    const bool negative = a > 2 * n;
    if (negative) a = 4 * n - a;
    const bool swap = a > n;
    if (swap) a = 2 * n - a;
    const double angle = (double)a * (PI / 4) / (double)n, c = cos(angle), s = sin(angle);
    const double re = swap ? s : c, im = swap ? c : s;
    return (pair){negative ? -re : re, conjugate ? im : -im};
}

static pair times(pair a, pair b) { return (pair){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static pair conjugate(pair a) { return (pair){a.re, -a.im}; }

// exp(-pi i j j / n) for j = 0 ... count - 1
static void chirp_roots(pair *to, int64_t count, int64_t n) {
    int64_t square = 0;
    for (int64_t j = 0; j < count; j++) {
        to[j] = root(square, 2 * n);
        square = (square + 2 * j + 1) % (2 * n);
    }
}

// The plain transform of n = 2^a 3^b ... points, for tables: x is overwritten; both hold n.
static void plain_fft(pair *x, pair *y, const pair *roots, int64_t n, int64_t step) {
    int64_t r = 2;
    while (r < n && n % r) r++;
    if (n == 1) return;
    const int64_t m = n / r;
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < m; j++) y[i * m + j] = x[j * r + i];
    for (int64_t i = 0; i < r; i++) plain_fft(y + i * m, x + i * m, roots, m, step * r);
    for (int64_t k = 0; k < n; k++) {
        pair sum = {0, 0};
        for (int64_t i = 0; i < r; i++) {
            const pair t = times(y[i * m + k % m], roots[i * k % n * step]);
            sum.re += t.re, sum.im += t.im;
        }
        x[k] = sum;
    }
}

// Puts the spectrum of x [m] over m at a table. x is lost. false: no memory.
static bool put_spectrum(const builder *b, int64_t table, pair *x, int64_t m) {
    pair *work = nbx_alloc((size_t)(2 * m) * sizeof *work);
    if (!work) return false;
    for (int64_t i = 0; i < m; i++) work[m + i] = root(i, m);
    plain_fft(x, work, work + m, m, 1);
    for (int64_t i = 0; i < m; i++) put(b, table, i, (pair){x[i].re / (double)m, x[i].im / (double)m});
    nbx_free(work);
    return true;
}

static int64_t power_mod(int64_t x, int64_t e, int64_t p) {
    int64_t y = 1;
    for (; e; e /= 2, x = x * x % p)
        if (e % 2) y = y * x % p;
    return y;
}

static int64_t generator_of(int64_t p) {
    for (int64_t g = 2;; g++) {
        bool good = true;
        int64_t left = p - 1;
        for (int64_t d = 2; d <= left && good; d++) {
            if (left % d) continue;
            good = power_mod(g, (p - 1) / d, p) != 1;
            while (left % d == 0) left /= d;
        }
        if (good) return g;
    }
}

static bool put_rader(const builder *b, const fft_node *t, int64_t p) {
    pair *x = nbx_alloc((size_t)(p - 1) * sizeof *x);
    int32_t *order = (int32_t *)(void *)(b->base + t->order);
    if (!x) return false;
    const int64_t g = generator_of(p), inverse = power_mod(g, p - 2, p);
    int64_t to = 1, from = 1;
    for (int64_t q = 0; q < p - 1; q++, to = to * inverse % p, from = from * g % p) {
        order[q] = (int32_t)from, order[p - 1 + q] = (int32_t)to;
        x[q] = root(to, p);
    }
    const bool done = put_spectrum(b, t->spectrum, x, p - 1);
    nbx_free(x);
    return done;
}

// The chirp of n points, and the spectrum of its conjugate wrapped around m.
static bool put_chirp(const builder *b, int64_t chirp, int64_t spectrum, int64_t n, int64_t m) {
    pair *x = nbx_alloc_zero((size_t)m * sizeof *x);
    pair *c = nbx_alloc((size_t)n * sizeof *c);
    bool done = x && c;
    if (done) {
        chirp_roots(c, n, n);
        for (int64_t j = 0; j < n; j++) {
            put(b, chirp, j, c[j]);
            x[j] = conjugate(c[j]);
            if (j) x[m - j] = x[j];
        }
        done = put_spectrum(b, spectrum, x, m);
    }
    nbx_free(x);
    nbx_free(c);
    return done;
}

static void build_node(builder *b, int64_t n) {
    fft_node *t = &b->plan->node[b->next_node++];
    fft_radices f;
    factor(n, &f);
    t->n = n, t->levels = f.levels, t->inner = -1;
    for (int l = 0; l < f.levels; l++) {
        const int64_t r = t->radix[l] = f.radix[l], m = (t->size[l] = n) / r;
        t->twiddle[l] = place_reals(b, 2 * m * (r - 1));
        t->roots[l] = r <= FFT_RADIX_MOST ? place_reals(b, 2 * r) : 0;
        if (b->base) {
            for (int64_t k = 0; k < m; k++)
                for (int64_t i = 1; i < r && m > 1; i++) put(b, t->twiddle[l], k * (r - 1) + i - 1, root(i * k, n));
            for (int64_t i = 0; i < r && r <= FFT_RADIX_MOST; i++) put(b, t->roots[l], i, root(i, r));
        }
        n = m;
    }
}

// A node, and the one of its convolution behind it.
static bool build_nodes(builder *b, int64_t n) {
    fft_radices f;
    fft_node *t = &b->plan->node[b->next_node];
    build_node(b, n);
    factor(n, &f);
    if (!f.prime) return true;
    t->inner = b->next_node;
    t->rader = rader_suits(f.prime);
    const int64_t m = t->rader ? f.prime - 1 : convolution_length(2 * f.prime - 1, smooth_cost);
    t->order = t->rader ? place(b, 8 * m) : place_reals(b, 2 * f.prime);
    t->spectrum = place_reals(b, 2 * m);
    if (b->base && !(t->rader ? put_rader(b, t, f.prime) : put_chirp(b, t->order, t->spectrum, f.prime, m))) return false;
    build_node(b, m);
    return true;
}

static void build_split(builder *b, int64_t n) {
    fft_plan *p = b->plan;
    const int lanes = fft_lanes(p->double_precision);
    const int64_t rows = p->kind == FFT_C2R && p->method == FFT_SPLIT ? p->n2 : p->n1;
    p->shift = 0;
    while ((int64_t)1 << (2 * p->shift) < n) p->shift++;
    const int64_t fine = (int64_t)1 << p->shift, coarse = (n >> p->shift) + 1;
    p->wide = place_reals(b, rows * lanes * 2);
    p->coarse = place(b, coarse * (int64_t)sizeof(pair));
    p->fine = place(b, fine * (int64_t)sizeof(pair));
    if (!b->base) return;
    for (int64_t k = 0; k < rows; k++)
        for (int l = 0; l < lanes; l++) {
            const pair w = root(k * l % n, n);
            const int64_t at = k * 2 * lanes + l;
            if (p->double_precision) ((double *)(void *)(b->base + p->wide))[at] = w.re, ((double *)(void *)(b->base + p->wide))[at + lanes] = w.im;
            else ((float *)(void *)(b->base + p->wide))[at] = (float)w.re, ((float *)(void *)(b->base + p->wide))[at + lanes] = (float)w.im;
        }
    for (int64_t i = 0; i < coarse; i++) ((pair *)(void *)(b->base + p->coarse))[i] = root((i << p->shift) % n, n);
    for (int64_t i = 0; i < fine; i++) ((pair *)(void *)(b->base + p->fine))[i] = root(i % n, n);
}

// Everything of the plan after its choices. false: no memory.
static bool build(builder *b) {
    fft_plan *p = b->plan;
    b->at = (int64_t)((sizeof *p + 63) & ~(size_t)63);
    b->next_node = 0;
    if (p->real_n && p->real_n % 2 == 0) {
        p->half = place_reals(b, 2 * (p->real_n / 4 + 1));
        for (int64_t k = 0; k <= p->real_n / 4 && b->base; k++) put(b, p->half, k, root(k, p->real_n));
    }
    if (p->method == FFT_DIRECT) return build_nodes(b, p->real_n && p->real_n % 2 == 0 ? p->n / 2 : p->n);
    const int64_t m = p->n1 * p->n2;
    if (!build_nodes(b, p->method == FFT_SPLIT && p->real_n && p->real_n % 2 == 0 ? p->n1 / 2 : p->n1)) return false;
    p->rows = b->next_node;
    if (!build_nodes(b, p->n2)) return false;
    build_split(b, m);
    if (p->method == FFT_SPLIT) return true;
    p->chirp = place_reals(b, 2 * p->n);
    p->chirp_spectrum = place_reals(b, 2 * m);
    return !b->base || put_chirp(b, p->chirp, p->chirp_spectrum, p->n, m);
}

static void choose(fft_plan *p, int64_t lines) {
    const int lanes = fft_lanes(p->double_precision);
    const fft_kind kind = (fft_kind)p->kind;
    const bool halves = kind != FFT_C2C && p->n % 2 == 0;
    const double direct = (halves ? 0.5 * node_cost(p->n / 2) + 2 : node_cost(p->n)) * waste(lines, lanes) + 2;
    int64_t n1 = 0, m1 = 0;
    double split = split_cost(p->n, kind, lanes, &n1);
    if (kind != FFT_C2C && n1 % 2) split *= 2;
    const int64_t m = p->n > 1 ? convolution_length(2 * p->n - 1, split_cost_f32) : 0;
    const double chirp = m ? (2 * split_cost(m, FFT_C2C, lanes, &m1) + 10) * (double)m / (double)p->n : INFINITY;
    p->method = direct <= split && direct <= chirp ? FFT_DIRECT : split <= chirp ? FFT_SPLIT : FFT_CHIRP;
    p->n1 = p->method == FFT_CHIRP ? m1 : n1;
    p->n2 = p->method == FFT_CHIRP ? m / m1 : p->method == FFT_SPLIT ? p->n / n1 : 0;
    p->real_n = kind == FFT_C2C || p->method == FFT_CHIRP ? 0 : p->method == FFT_SPLIT ? p->n1 : p->n;
}

// ---------------------------------------------------------------------------------------------------------------- cache
#define CACHE_PLANS 16
#define CACHE_BYTES ((size_t)64 << 20)

typedef struct fft_cache {
    fft_plan *plan[CACHE_PLANS];  // the last used first
    int64_t lines[CACHE_PLANS];
    size_t bytes;
} fft_cache;

static void destroy_cache(fft_cache *cache) {
    for (int i = 0; i < CACHE_PLANS; i++) nbx_free(cache->plan[i]);
    nbx_free(cache);
}

static void move_to_front(fft_cache *cache, int i, fft_plan *plan, int64_t lines) {
    memmove(cache->plan + 1, cache->plan, (size_t)i * sizeof cache->plan[0]);
    memmove(cache->lines + 1, cache->lines, (size_t)i * sizeof cache->lines[0]);
    cache->plan[0] = plan, cache->lines[0] = lines;
}

static fft_plan *make_plan(int64_t n, fft_kind kind, bool double_precision, int64_t lines) {
    fft_plan sizes = {.n = n, .double_precision = double_precision, .kind = (int32_t)kind};
    choose(&sizes, lines);
    builder b = {.plan = &sizes};
    build(&b);
    fft_plan *plan = nbx_alloc_zero((size_t)b.at);
    if (!plan) return NULL;
    *plan = sizes;
    plan->bytes = (size_t)b.at;
    b.plan = plan, b.base = (char *)plan;
    if (build(&b)) return plan;
    nbx_free(plan);
    return NULL;
}

const fft_plan *nbx_fft_plan(nbx_context *ctx, int64_t n, fft_kind kind, bool double_precision, int64_t lines) {
    const int lanes = fft_lanes(double_precision);
    if (lines > lanes) lines = lanes;
    if (!ctx->fft_cache) {
        ctx->fft_cache = nbx_alloc_zero(sizeof *ctx->fft_cache);
        ctx->destroy_fft_cache = destroy_cache;
    }
    fft_cache *cache = ctx->fft_cache;
    for (int i = 0; cache && i < CACHE_PLANS && cache->plan[i]; i++) {
        fft_plan *p = cache->plan[i];
        if (p->n != n || p->kind != (int32_t)kind || p->double_precision != double_precision || cache->lines[i] != lines) continue;
        move_to_front(cache, i, p, lines);
        return p;
    }
    fft_plan *plan = cache ? make_plan(n, kind, double_precision, lines) : NULL;
    if (!plan) {
        nbx_fail_memory(ctx, 0, "tables of a Fourier transform");
        return NULL;
    }
    cache->bytes += plan->bytes;
    for (int i = CACHE_PLANS - 1; i >= 0; i--) {
        if (!cache->plan[i] || (i < CACHE_PLANS - 1 && cache->bytes <= CACHE_BYTES)) continue;
        cache->bytes -= cache->plan[i]->bytes;
        nbx_free(cache->plan[i]);
        cache->plan[i] = NULL;
    }
    move_to_front(cache, CACHE_PLANS - 1, plan, lines);
    return plan;
}

// -------------------------------------------------------------------------------------------------------------- scratch
static int64_t spare_points(const fft_plan *p) {
    int64_t most = 0;
    for (int i = 0; i < FFT_NODES; i++)
        if (p->node[i].n && p->node[i].inner >= 0 && 2 * p->node[p->node[i].inner].n > most) most = 2 * p->node[p->node[i].inner].n;
    return most;
}

fft_places nbx_fft_places(const fft_plan *p) {
    const int64_t lanes = fft_lanes(p->double_precision), size = p->double_precision ? 8 : 4, vector = 2 * lanes * size;
    const int64_t longest = p->method == FFT_DIRECT ? p->n : p->n1 > p->n2 ? p->n1 : p->n2;
    fft_places at = {.lane_bytes = (size_t)((2 * (longest + lanes + 1) + spare_points(p)) * vector)};
    if (p->method == FFT_DIRECT) return at;
    const int64_t columns = fft_columns(p);
    const int64_t vectors = p->kind == FFT_C2R && p->method == FFT_SPLIT ? (columns + lanes - 1) / lanes * p->n2 : (p->n2 + lanes - 1) / lanes * columns;
    at.mid_bytes = (size_t)(vectors * vector);
    if (p->method == FFT_CHIRP) at.line_bytes = (size_t)(p->n1 * p->n2 * 2 * size + 63) & ~(size_t)63;
    return at;
}

size_t nbx_fft_scratch(const fft_plan *p, int threads) {
    const fft_places at = nbx_fft_places(p);
    const size_t copies = fft_shares_line(p) ? 1 : (size_t)threads;
    return (at.mid_bytes + at.line_bytes) * copies + at.lane_bytes * (size_t)threads;
}
