// Fourier transforms of any length along one dim of a tensor, for all lines along that dim.
//
// Vectors hold lines, or columns of a line: lane i of a vector belongs to line i, so one code of butterflies serves every
// length. A node is a transform of n points for a vector of lines; a plan says how a line is made of nodes:
//   direct   a vector of lines through one node
//   split    n = n1 x n2: n2 columns of n1 points, twiddle factors, n1 rows of n2 points, each a vector at a time. Rows and
//            columns of a line of 2^20 have 1024 points, and of one of 1024 points 32, which stay in the first-level cache.
//   chirp    any other n: the convolution of Bluestein, by split transforms of m >= 2n - 1 points
// Inside a node, radices 2 to 64 in place, depth first; a larger prime as a convolution of p - 1 points (Rader) or of
// m >= 2p - 1 (Bluestein). Real lines of even length are transformed as half as many complex numbers.
// The choice depends on n and on the number of lines, never on threads or the instruction set.
#ifndef NBX_OPS_FFT_H
#define NBX_OPS_FFT_H

#include "ops/op.h"

#define FFT_LEVELS 24
#define FFT_RADIX_MOST 64
#define FFT_NODES 4

typedef enum fft_kind { FFT_C2C, FFT_R2C, FFT_C2R } fft_kind;
typedef enum fft_method { FFT_DIRECT, FFT_SPLIT, FFT_CHIRP } fft_method;

// Places of tables count bytes from the start of the plan; tables hold reals of the plan's precision, complex as pairs.
typedef struct fft_node {
    int64_t n;
    int32_t levels;
    int32_t inner;                  // node of the convolution that the last level is, or -1
    bool rader;
    int32_t radix[FFT_LEVELS];      // from the outside
    int64_t size[FFT_LEVELS];       // points of a level: its radix and all after it
    int64_t twiddle[FFT_LEVELS];    // [size / radix][radix - 1]
    int64_t roots[FFT_LEVELS];      // [radix], for odd ones
    int64_t order;                  // Rader: int32 [2][p - 1], where points come from and go to; Bluestein: complex [p], the chirp
    int64_t spectrum;               // complex [inner n]
} fft_node;

typedef struct fft_plan {
    size_t bytes;
    int64_t n;
    int32_t double_precision, kind, method;
    int64_t n1, n2;                 // split: of n, or of the convolution
    int32_t rows;                   // the node of n2; that of n1, or of direct transforms, is 0
    int64_t real_n, half;           // points of the real transform, and its [real_n / 4 + 1] factors, if real_n is even
    int64_t wide, coarse, fine;     // split: w^(row * lane) [rows][2][lanes]; w^(i << shift) and w^i in double
    int32_t shift;
    int64_t chirp, chirp_spectrum;
    fft_node node[FFT_NODES];
} fft_plan;

// One transform of every line of a tensor. Strides count reals, so complex elements lie at even ones.
typedef struct fft_lines {
    const void *in;
    void *out;
    int64_t in_step, out_step;  // along the line
    int64_t count;              // lines
    int rank;                   // the other dims, innermost first
    int64_t shape[NBX_MAX_RANK], in_stride[NBX_MAX_RANK], out_stride[NBX_MAX_RANK];
    bool inverse;
    double scale;
} fft_lines;

// A plan in the context's cache, made when it is not there. NULL: fails the context.
const fft_plan *nbx_fft_plan(nbx_context *ctx, int64_t n, fft_kind kind, bool double_precision, int64_t lines);

static inline int fft_lanes(bool double_precision) { return double_precision ? 8 : 16; }
static inline const void *fft_table(const fft_plan *p, int64_t at) { return (const char *)p + at; }
static inline int64_t fft_columns(const fft_plan *p) { return p->kind == FFT_C2C || p->method != FFT_SPLIT ? p->n1 : p->n1 / 2 + 1; }

// Long lines are transformed one after the other, by all threads; shorter ones each by one thread.
static inline bool fft_shares_line(const fft_plan *p) { return p->method == FFT_CHIRP ? p->n1 * p->n2 >= 32768 : p->n >= 32768; }
// Bytes of scratch for all threads.
size_t nbx_fft_scratch(const fft_plan *p, int threads);
// Of these, where what belongs to a line (at the start: mid, then line) and to a thread lies.
typedef struct fft_places {
    size_t mid_bytes, line_bytes, lane_bytes;
} fft_places;
fft_places nbx_fft_places(const fft_plan *p);

#ifdef NBX_ISA_SUFFIX
void NBX_KERNEL(fft_run_f32)(const fft_plan *p, const fft_lines *lines, nbx_pool *pool, void *scratch);
void NBX_KERNEL(fft_run_f64)(const fft_plan *p, const fft_lines *lines, nbx_pool *pool, void *scratch);
#endif
NBX_CPU_DECLARE(fft_cpu);

#endif
