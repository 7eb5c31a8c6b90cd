// From memory to vectors of lines and back, and the three methods. Included after fft_nodes.h.

// Where the lines of a vector lie: reals from the base.
typedef struct NAME(group) {
    int count;              // 1 to LANES
    int64_t at[LANES];
    bool adjacent, complex; // complex elements, or reals; lines next to each other
} NAME(group);

static void NAME(see_adjacent)(NAME(group) *g)
{
    g->adjacent = true;
    for (int l = 1; l < g->count; l++) g->adjacent &= g->at[l] - g->at[l - 1] == (g->complex ? 2 : 1);
}

// Runs of reals, one for each lane, to vectors: vector q to x + q * step.
static void NAME(load_runs)(const REAL *base, const NAME(group) *g, int64_t count, REAL *x, int64_t step)
{
    int64_t q = 0;
    for (; q + LANES <= count; q += LANES) {
        VEC rows[LANES];
        for (int l = 0; l < LANES; l++) rows[l] = l < g->count ? V(load)(base + g->at[l] + q) : V(zero)();
        NAME(store_turned)(x + q * step, step, rows);
    }
    for (; q < count; q++)
        for (int l = 0; l < LANES; l++) x[q * step + l] = l < g->count ? base[g->at[l] + q] : 0;
}

static void NAME(store_runs)(REAL *base, const NAME(group) *g, int64_t count, const REAL *x, int64_t step, REAL scale)
{
    const VEC s = V(set1)(scale);
    int64_t q = 0;
    for (; q + LANES <= count; q += LANES) {
        VEC rows[LANES];
        REAL tile[LANES * LANES];
        for (int i = 0; i < LANES; i++) rows[i] = V(mul)(V(load)(x + (q + i) * step), s);
        NAME(store_turned)(tile, LANES, rows);
        for (int l = 0; l < g->count; l++) V(store)(base + g->at[l] + q, V(load)(tile + l * LANES));
    }
    for (; q < count; q++)
        for (int l = 0; l < g->count; l++) base[g->at[l] + q] = x[q * step + l] * scale;
}

// Element j of each line, `along` reals from the one before, to point j of x.
static void NAME(load_complex)(const REAL *base, const NAME(group) *g, int64_t along, int64_t count, REAL *x)
{
    if (g->adjacent) {
        for (int64_t j = 0; j < count; j++) {
            PAIR v;
            REAL some[POINT];
            const REAL *from = base + g->at[0] + j * along;
            if (g->count < LANES) {
                memset(some, 0, sizeof some);
                memcpy(some, from, (size_t)g->count * 2 * sizeof(REAL));
                from = some;
            }
            V(load_pairs)(from, &v.re, &v.im);
            NAME(set)(x + j * POINT, 0, v);
        }
    } else if (along == 2) NAME(load_runs)(base, g, 2 * count, x, LANES);
    else {
        for (int64_t j = 0; j < count; j++)
            for (int l = 0; l < LANES; l++) {
                const REAL *from = base + g->at[l < g->count ? l : 0] + j * along;
                x[j * POINT + l] = l < g->count ? from[0] : 0, x[j * POINT + LANES + l] = l < g->count ? from[1] : 0;
            }
    }
}

static void NAME(store_complex)(REAL *base, const NAME(group) *g, int64_t along, int64_t count, const REAL *x, REAL scale)
{
    const VEC s = V(set1)(scale);
    if (g->adjacent) {
        for (int64_t j = 0; j < count; j++) {
            const PAIR v = NAME(get)(x + j * POINT, 0);
            REAL some[POINT], *to = base + g->at[0] + j * along;
            V(store_pairs)(g->count < LANES ? some : to, V(mul)(v.re, s), V(mul)(v.im, s));
            if (g->count < LANES) memcpy(to, some, (size_t)g->count * 2 * sizeof(REAL));
        }
    } else if (along == 2) NAME(store_runs)(base, g, 2 * count, x, LANES, scale);
    else {
        for (int64_t j = 0; j < count; j++)
            for (int l = 0; l < g->count; l++) {
                REAL *to = base + g->at[l] + j * along;
                to[0] = x[j * POINT + l] * scale, to[1] = x[j * POINT + LANES + l] * scale;
            }
    }
}

// Real element j to vector j of x, `step` reals apart: LANES makes pairs of them, POINT leaves room for imaginary parts.
static void NAME(load_real)(const REAL *base, const NAME(group) *g, int64_t along, int64_t count, REAL *x, int64_t step)
{
    if (along == 1 && !g->adjacent) NAME(load_runs)(base, g, count, x, step);
    else {
        for (int64_t j = 0; j < count; j++) {
            const REAL *from = base + j * along;
            if (g->adjacent) V(store)(x + j * step, g->count == LANES ? V(load)(from + g->at[0]) : V(load_n)(from + g->at[0], g->count));
            else for (int l = 0; l < LANES; l++) x[j * step + l] = l < g->count ? from[g->at[l]] : 0;
        }
    }
    for (int64_t j = 0; j < count && step == POINT; j++) V(store)(x + j * POINT + LANES, V(zero)());
}

static void NAME(store_real)(REAL *base, const NAME(group) *g, int64_t along, int64_t count, const REAL *x, int64_t step, REAL scale)
{
    if (along == 1 && !g->adjacent) {
        NAME(store_runs)(base, g, count, x, step, scale);
        return;
    }
    for (int64_t j = 0; j < count; j++) {
        REAL *to = base + j * along;
        const VEC v = V(mul)(V(load)(x + j * step), V(set1)(scale));
        if (g->adjacent) V(store_n)(to + g->at[0], v, g->count);
        else for (int l = 0; l < g->count; l++) to[g->at[l]] = x[j * step + l] * scale;
    }
}

// ------------------------------------------------------------------------------------------------------------ the job
typedef struct NAME(job) {
    const fft_plan *p;
    const fft_lines *lines;
    char *scratch;
    fft_places places;
    int64_t line;      // of a split
    const REAL *in;    // where it begins
    REAL *out, *mid, *work;
    int64_t in_step, out_step;
    bool inverse;
    REAL scale;
    fft_kind kind;     // of the split
    size_t lanes_at;   // in scratch, the buffers of thread 0
} NAME(job);

typedef struct NAME(buffers) { REAL *x, *y, *spare; } NAME(buffers);

static NAME(buffers) NAME(buffers_of)(const NAME(job) *b, int thread)
{
    const fft_plan *p = b->p;
    const int64_t longest = (p->method == FFT_DIRECT ? p->n : p->n1 > p->n2 ? p->n1 : p->n2) + LANES + 1;
    REAL *x = (REAL *)(void *)(b->scratch + b->lanes_at + (size_t)thread * b->places.lane_bytes);
    return (NAME(buffers)){x, x + longest * POINT, x + 2 * longest * POINT};
}

static void NAME(place_line)(const fft_lines *lines, int64_t line, int64_t *in, int64_t *out)
{
    *in = *out = 0;
    for (int d = 0; d < lines->rank && line; d++) {
        const bool last = d == lines->rank - 1;
        const int64_t i = last ? line : line % lines->shape[d];
        line = last ? 0 : line / lines->shape[d];
        *in += i * lines->in_stride[d], *out += i * lines->out_stride[d];
    }
}

// --------------------------------------------------------------------------------------------------------------- direct
static void NAME(direct_groups)(void *arg, int64_t begin, int64_t end, int thread)
{
    const NAME(job) *b = arg;
    const fft_plan *p = b->p;
    const fft_lines *lines = b->lines;
    const NAME(buffers) at = NAME(buffers_of)(b, thread);
    const int64_t n = p->n, h = n / 2 + 1, step = n % 2 ? POINT : LANES;
    for (int64_t group = begin; group < end; group++) {
        NAME(group) in = {.complex = p->kind != FFT_R2C}, out = {.complex = p->kind != FFT_C2R};
        in.count = out.count = (int)(lines->count - group * LANES < LANES ? lines->count - group * LANES : LANES);
        for (int l = 0; l < in.count; l++) NAME(place_line)(lines, group * LANES + l, &in.at[l], &out.at[l]);
        NAME(see_adjacent)(&in);
        NAME(see_adjacent)(&out);
        if (p->kind == FFT_C2C) {
            NAME(load_complex)(lines->in, &in, lines->in_step, n, at.x);
            NAME(transform)(p, 0, at.x, at.y, at.spare, lines->inverse ? LANES : 0);
            NAME(store_complex)(lines->out, &out, lines->out_step, n, at.y, b->scale);
        } else if (p->kind == FFT_R2C) {
            NAME(load_real)(lines->in, &in, lines->in_step, n, at.x, step);
            NAME(store_complex)(lines->out, &out, lines->out_step, h, NAME(real_forward)(p, at.x, at.y, at.spare), b->scale);
        } else {
            NAME(load_complex)(lines->in, &in, lines->in_step, h, at.x);
            NAME(store_real)(lines->out, &out, lines->out_step, n, NAME(real_inverse)(p, at.x, at.y, at.spare), step, b->scale);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------- split
// Multiplies rows of a vector of columns that begins at `column` by w^(row * column).
static void NAME(twiddle)(const fft_plan *p, const REAL *x, REAL *to, int64_t rows, int64_t column, int re)
{
    const REAL *wide = fft_table(p, p->wide);
    const double *coarse = fft_table(p, p->coarse), *fine = fft_table(p, p->fine);
    const int64_t n = p->n1 * p->n2, mask = ((int64_t)1 << p->shift) - 1;
    int64_t at = 0;
    for (int64_t k = 0; k < rows; k++) {
        const double *c = coarse + 2 * (at >> p->shift), *f = fine + 2 * (at & mask);
        const VEC wr = V(set1)((REAL)(c[0] * f[0] - c[1] * f[1])), wi = V(set1)((REAL)(c[0] * f[1] + c[1] * f[0]));
        const PAIR w = NAME(times)(NAME(get)(wide + k * POINT, 0), wr, wi);
        NAME(set)(to + k * POINT, re, NAME(times)(NAME(get)(x + k * POINT, re), w.re, w.im));
        at += column;
        if (at >= n) at -= n;
    }
}

// mid is [groups of columns][rows] points; lanes of rows row ... row + count - 1, for all columns, as points of x.
static void NAME(turn)(const REAL *mid, int64_t rows, int64_t row, int count, int64_t columns, REAL *x)
{
    for (int64_t g = 0; g < columns; g += LANES)
        for (int part = 0; part < POINT; part += LANES) {
            VEC v[LANES];
            for (int l = 0; l < LANES; l++) v[l] = l < count ? V(load)(mid + (g / LANES * rows + row + l) * POINT + part) : V(zero)();
            NAME(store_turned)(x + g * POINT + part, POINT, v);
        }
}

static int NAME(some_lanes)(int64_t all, int64_t group) { return (int)(all - group * LANES < LANES ? all - group * LANES : LANES); }

// Columns: n1 points each, of which element j * n2 + column is number j.
static void NAME(split_columns)(void *arg, int64_t begin, int64_t end, int thread)
{
    const NAME(job) *b = arg;
    const fft_plan *p = b->p;
    const NAME(buffers) at = NAME(buffers_of)(b, thread);
    const int64_t rows = b->kind == FFT_R2C ? p->n1 / 2 + 1 : p->n1;
    const int re = b->inverse ? LANES : 0;
    for (int64_t group = begin; group < end; group++) {
        NAME(group) in = {.count = NAME(some_lanes)(p->n2, group), .complex = b->kind != FFT_R2C};
        for (int l = 0; l < in.count; l++) in.at[l] = (group * LANES + l) * b->in_step;
        NAME(see_adjacent)(&in);
        const REAL *y = at.y;
        if (b->kind == FFT_R2C) {
            NAME(load_real)(b->in, &in, b->in_step * p->n2, p->n1, at.x, p->n1 % 2 ? POINT : LANES);
            y = NAME(real_forward)(p, at.x, at.y, at.spare);
        } else {
            NAME(load_complex)(b->in, &in, b->in_step * p->n2, p->n1, at.x);
            NAME(transform)(p, 0, at.x, at.y, at.spare, re);
        }
        NAME(twiddle)(p, y, b->mid + group * rows * POINT, rows, group * LANES, re);
    }
}

// Results of real lines beyond the middle are conjugates of what is stored at n - k.
static void NAME(store_half)(const NAME(job) *b, const REAL *x, int64_t first, int count)
{
    const int64_t n1 = b->p->n1, n = b->p->n;
    const VEC s = V(set1)(b->scale);
    for (int64_t j = 0; j < b->p->n2; j++) {
        if (count == LANES && b->out_step == 2 && 2 * (first + LANES - 1 + n1 * j) <= n) {
            const PAIR v = NAME(get)(x + j * POINT, 0);
            V(store_pairs)(b->out + (first + n1 * j) * 2, V(mul)(v.re, s), V(mul)(v.im, s));
        } else for (int l = 0; l < count; l++) {
            const int64_t row = first + l, k = row + n1 * j;
            const REAL re = x[j * POINT + l] * b->scale, im = x[j * POINT + LANES + l] * b->scale;
            if (2 * k <= n) b->out[k * b->out_step] = re, b->out[k * b->out_step + 1] = im;
            else if (row && 2 * row != n1) b->out[(n - k) * b->out_step] = re, b->out[(n - k) * b->out_step + 1] = -im;
        }
    }
}

// Rows: n2 points each; number j of row k is result k + n1 * j.
static void NAME(split_rows)(void *arg, int64_t begin, int64_t end, int thread)
{
    const NAME(job) *b = arg;
    const fft_plan *p = b->p;
    const NAME(buffers) at = NAME(buffers_of)(b, thread);
    const int64_t rows = b->kind == FFT_R2C ? p->n1 / 2 + 1 : p->n1;
    for (int64_t group = begin; group < end; group++) {
        NAME(group) out = {.count = NAME(some_lanes)(rows, group), .complex = true};
        for (int l = 0; l < out.count; l++) out.at[l] = (group * LANES + l) * b->out_step;
        NAME(see_adjacent)(&out);
        NAME(turn)(b->mid, rows, group * LANES, out.count, p->n2, at.x);
        NAME(transform)(p, p->rows, at.x, at.y, at.spare, b->inverse ? LANES : 0);
        if (b->kind == FFT_R2C) NAME(store_half)(b, at.y, group * LANES, out.count);
        else NAME(store_complex)(b->out, &out, b->out_step * p->n1, p->n2, at.y, b->scale);
    }
}

// Back to real lines: first the rows, of which there are n1 / 2 + 1 ...
static void NAME(back_rows)(void *arg, int64_t begin, int64_t end, int thread)
{
    const NAME(job) *b = arg;
    const fft_plan *p = b->p;
    const NAME(buffers) at = NAME(buffers_of)(b, thread);
    const int64_t n1 = p->n1, n = p->n;
    for (int64_t group = begin; group < end; group++) {
        const int count = NAME(some_lanes)(n1 / 2 + 1, group);
        for (int64_t j = 0; j < p->n2; j++) {
            const int64_t first = group * LANES + n1 * j;
            if (count == LANES && b->in_step == 2 && first && 2 * (first + LANES - 1) < n) {
                PAIR v;
                V(load_pairs)(b->in + first * 2, &v.re, &v.im);
                NAME(set)(at.x + j * POINT, 0, v);
            } else for (int l = 0; l < LANES; l++) {
                const int64_t k = group * LANES + l + n1 * j;
                const REAL *from = b->in + (2 * k <= n ? k : n - k) * b->in_step;
                const bool end_point = k == 0 || 2 * k == n, here = l < count;
                at.x[j * POINT + l] = here ? from[0] : 0;
                at.x[j * POINT + LANES + l] = !here || end_point ? 0 : 2 * k <= n ? from[1] : -from[1];
            }
        }
        NAME(transform)(p, p->rows, at.x, at.y, at.spare, LANES);
        NAME(twiddle)(p, at.y, b->mid + group * p->n2 * POINT, p->n2, group * LANES, LANES);
    }
}

// ... then the columns.
static void NAME(back_columns)(void *arg, int64_t begin, int64_t end, int thread)
{
    const NAME(job) *b = arg;
    const fft_plan *p = b->p;
    const NAME(buffers) at = NAME(buffers_of)(b, thread);
    for (int64_t group = begin; group < end; group++) {
        NAME(group) out = {.count = NAME(some_lanes)(p->n2, group)};
        for (int l = 0; l < out.count; l++) out.at[l] = (group * LANES + l) * b->out_step;
        NAME(see_adjacent)(&out);
        NAME(turn)(b->mid, p->n2, group * LANES, out.count, p->n1 / 2 + 1, at.x);
        NAME(store_real)(b->out, &out, b->out_step * p->n2, p->n1, NAME(real_inverse)(p, at.x, at.y, at.spare), p->n1 % 2 ? POINT : LANES, b->scale);
    }
}

// One line, by this thread (pool NULL) or all.
static void NAME(split_line)(NAME(job) *b, nbx_pool *pool, int thread)
{
    const int64_t rows = b->kind == FFT_C2C ? b->p->n1 : b->p->n1 / 2 + 1;
    const int64_t columns = (b->p->n2 + LANES - 1) / LANES, groups = (rows + LANES - 1) / LANES;
    const int64_t grain = 1 + 2048 / (b->kind == FFT_C2R ? b->p->n2 : b->p->n1);
    if (pool) {
        nbx_parallel_for(pool, b->kind == FFT_C2R ? groups : columns, grain, b->kind == FFT_C2R ? NAME(back_rows) : NAME(split_columns), b);
        nbx_parallel_for(pool, b->kind == FFT_C2R ? columns : groups, grain, b->kind == FFT_C2R ? NAME(back_columns) : NAME(split_rows), b);
    } else if (b->kind == FFT_C2R) {
        NAME(back_rows)(b, 0, groups, thread);
        NAME(back_columns)(b, 0, columns, thread);
    } else {
        NAME(split_columns)(b, 0, columns, thread);
        NAME(split_rows)(b, 0, groups, thread);
    }
}

// ---------------------------------------------------------------------------------------------------------------- chirp
static void NAME(chirp_in)(const NAME(job) *b, const REAL *in, REAL *a)
{
    const fft_plan *p = b->p;
    const REAL *w = fft_table(p, p->chirp);
    const int64_t n = p->n, step = b->lines->in_step;
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = p->kind == FFT_C2R && 2 * j > n ? n - j : j;
        const bool is_real = p->kind == FFT_R2C || (p->kind == FFT_C2R && (j == 0 || 2 * j == n));
        const REAL re = in[at * step];
        REAL im = is_real ? 0 : in[at * step + 1];
        // the inverse is the conjugate of the transform of conjugates
        if ((b->lines->inverse || p->kind == FFT_C2R) == (at == j)) im = -im;
        a[2 * j] = re * w[2 * j] - im * w[2 * j + 1], a[2 * j + 1] = re * w[2 * j + 1] + im * w[2 * j];
    }
    memset(a + 2 * n, 0, (size_t)(p->n1 * p->n2 - n) * 2 * sizeof(REAL));
}

static void NAME(chirp_out)(const NAME(job) *b, const REAL *a, REAL *out)
{
    const fft_plan *p = b->p;
    const REAL *w = fft_table(p, p->chirp), scale = (REAL)b->lines->scale;
    const int64_t count = p->kind == FFT_R2C ? p->n / 2 + 1 : p->n, step = b->lines->out_step;
    for (int64_t k = 0; k < count; k++) {
        const REAL re = a[2 * k] * w[2 * k] - a[2 * k + 1] * w[2 * k + 1], im = a[2 * k] * w[2 * k + 1] + a[2 * k + 1] * w[2 * k];
        out[k * step] = re * scale;
        if (p->kind != FFT_C2R) out[k * step + 1] = (b->lines->inverse ? -im : im) * scale;
    }
}

static void NAME(chirp_line)(NAME(job) *b, nbx_pool *pool, int thread, const REAL *in, REAL *out)
{
    const REAL *s = fft_table(b->p, b->p->chirp_spectrum);
    REAL *a = b->work;
    NAME(chirp_in)(b, in, a);
    b->in = b->out = a, b->in_step = b->out_step = 2, b->scale = 1, b->kind = FFT_C2C, b->inverse = false;
    NAME(split_line)(b, pool, thread);
    for (int64_t k = 0; k < b->p->n1 * b->p->n2; k++) {
        const REAL re = a[2 * k] * s[2 * k] - a[2 * k + 1] * s[2 * k + 1], im = a[2 * k] * s[2 * k + 1] + a[2 * k + 1] * s[2 * k];
        a[2 * k] = re, a[2 * k + 1] = im;
    }
    b->inverse = true;
    NAME(split_line)(b, pool, thread);
    NAME(chirp_out)(b, a, out);
}

// ------------------------------------------------------------------------------------------------------------ all lines
static void NAME(one_line)(NAME(job) *b, nbx_pool *pool, int64_t line, int thread, size_t copy)
{
    int64_t in, out;
    NAME(place_line)(b->lines, line, &in, &out);
    b->mid = (REAL *)(void *)(b->scratch + copy * (b->places.mid_bytes + b->places.line_bytes));
    b->work = (REAL *)(void *)((char *)b->mid + b->places.mid_bytes);
    b->in = (const REAL *)b->lines->in + in, b->out = (REAL *)b->lines->out + out;
    if (b->p->method == FFT_CHIRP) {
        NAME(chirp_line)(b, pool, thread, b->in, b->out);
        return;
    }
    b->in_step = b->lines->in_step, b->out_step = b->lines->out_step;
    b->kind = (fft_kind)b->p->kind, b->inverse = b->lines->inverse;
    NAME(split_line)(b, pool, thread);
}

static void NAME(lines_alone)(void *arg, int64_t begin, int64_t end, int thread)
{
    NAME(job) b = *(const NAME(job) *)arg;
    for (int64_t line = begin; line < end; line++) NAME(one_line)(&b, NULL, line, thread, (size_t)thread);
}

void NBX_KERNEL(RUN)(const fft_plan *p, const fft_lines *lines, nbx_pool *pool, void *scratch)
{
    const int threads = nbx_pool_threads(pool);
    NAME(job) b = {.p = p, .lines = lines, .scratch = scratch, .places = nbx_fft_places(p), .scale = (REAL)lines->scale};
    if (p->method == FFT_DIRECT) {
        const int64_t groups = (lines->count + LANES - 1) / LANES;
        nbx_parallel_for(pool, groups, 1 + 1024 / p->n, NAME(direct_groups), &b);
        return;
    }
    const size_t copies = fft_shares_line(p) ? 1 : (size_t)threads;
    b.lanes_at = copies * (b.places.mid_bytes + b.places.line_bytes);
    if (!fft_shares_line(p)) nbx_parallel_for(pool, lines->count, 1 + 4096 / p->n, NAME(lines_alone), &b);
    else for (int64_t line = 0; line < lines->count; line++) NAME(one_line)(&b, pool, line, 0, 0);
}
