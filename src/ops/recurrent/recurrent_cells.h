// The functions of a step for one precision. Included by recurrent_cpu.c with REAL, VEC, LANES, V(op), NAME(name), and
// store_state for the dtypes of that precision.

// What a row of a step reads and writes: its gates and cell, and where the new state goes (twice).
typedef struct NAME(row) {
    const REAL *x, *h;    // [gates][hidden]: products with the input and, GRU only, with the state
    REAL *cell;           // of an LSTM; of a GRU the state, not rounded
    void *state, *out;    // out NULL: a projection follows
    int64_t hidden;
    nbx_dtype dtype;
} NAME(row);

SIMD_INLINE void NAME(put)(const NAME(row) *r, int64_t j, VEC y, int n)
{
    NAME(store_state)(r->dtype, r->state, j, y, n);
    if (r->out) NAME(store_state)(r->dtype, r->out, j, y, n);
}

SIMD_INLINE void NAME(lstm)(const NAME(row) *r, int64_t j, int n)
{
    const REAL *x = r->x + j;
    const int64_t h = r->hidden;
    const VEC i = V(sigmoid)(V(load_n)(x, n)), f = V(sigmoid)(V(load_n)(x + h, n)), g = V(tanh)(V(load_n)(x + 2 * h, n));
    const VEC o = V(sigmoid)(V(load_n)(x + 3 * h, n)), c = V(fma)(f, V(load_n)(r->cell + j, n), V(mul)(i, g));
    V(store_n)(r->cell + j, c, n);
    NAME(put)(r, j, V(mul)(o, V(tanh)(c)), n);
}

SIMD_INLINE void NAME(gru)(const NAME(row) *r, int64_t j, int n)
{
    const REAL *x = r->x + j, *y = r->h + j;
    const int64_t h = r->hidden;
    const VEC reset = V(sigmoid)(V(add)(V(load_n)(x, n), V(load_n)(y, n)));
    const VEC keep = V(sigmoid)(V(add)(V(load_n)(x + h, n), V(load_n)(y + h, n)));
    const VEC new = V(tanh)(V(fma)(reset, V(load_n)(y + 2 * h, n), V(load_n)(x + 2 * h, n)));
    const VEC state = V(fma)(V(sub)(V(load_n)(r->cell + j, n), new), keep, new);
    V(store_n)(r->cell + j, state, n);
    NAME(put)(r, j, state, n);
}

static void NAME(run_row)(const NAME(row) *r, recurrent_mode mode)
{
    for (int64_t j = 0; j < r->hidden; j += LANES) {
        const int n = r->hidden - j < LANES ? (int)(r->hidden - j) : LANES;
        if (mode == RECURRENT_LSTM) NAME(lstm)(r, j, n);
        else if (mode == RECURRENT_GRU) NAME(gru)(r, j, n);
        else if (mode == RECURRENT_TANH) NAME(put)(r, j, V(tanh)(V(load_n)(r->x + j, n)), n);
        else NAME(put)(r, j, V(max)(V(load_n)(r->x + j, n), V(zero)()), n);
    }
}

typedef struct NAME(step) {
    const recurrent_job *job;
    const REAL *x, *h;
    REAL *cell;
    char *state, *out;
    size_t row_bytes;  // of state and out
    recurrent_mode mode;
    nbx_dtype dtype;
} NAME(step);

static void NAME(run_rows)(void *arg, int64_t begin, int64_t end, int thread)
{
    const NAME(step) *s = arg;
    const int64_t hidden = s->job->hidden, width = s->job->gates * hidden;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const NAME(row) r = {s->x + i * width, s->h ? s->h + i * width : NULL, s->cell + i * hidden, s->state + (size_t)i * s->row_bytes,
                             s->out ? s->out + (size_t)i * s->row_bytes : NULL, hidden, s->dtype};
        NAME(run_row)(&r, s->mode);
    }
}
