// Bilinear samples of a plane, each step rounded to the dtype: what regions of interest and deformable convolution share.
#ifndef NBX_OPS_BILINEAR_H
#define NBX_OPS_BILINEAR_H

#include <math.h>

#include "ops/matmul/plain_numbers.h"

// Four neighbours and their weights; a place of -1 is outside and counts as 0.
typedef struct bilinear {
    int64_t place[4];
    double weight[4];
} bilinear;

INLINE void bilinear_weights(bilinear *b, double ly, double lx, nbx_dtype d) {
    const double hy = in_dtype(1 - ly, d), hx = in_dtype(1 - lx, d);
    b->weight[0] = in_dtype(hy * hx, d), b->weight[1] = in_dtype(hy * lx, d);
    b->weight[2] = in_dtype(ly * hx, d), b->weight[3] = in_dtype(ly * lx, d);
}

// Up to a pixel outside, coordinates are moved to the edge; false: farther away, the sample is 0.
INLINE bool bilinear_clamped(bilinear *b, double y, double x, int64_t height, int64_t width, int64_t row, int64_t col, nbx_dtype d) {
    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width)) return false;
    if (y <= 0) y = 0;
    if (x <= 0) x = 0;
    int64_t y0 = (int64_t)y, x0 = (int64_t)x, y1 = y0 + 1, x1 = x0 + 1;
    if (y0 >= height - 1) y1 = y0 = height - 1, y = in_dtype((double)y0, d);
    if (x0 >= width - 1) x1 = x0 = width - 1, x = in_dtype((double)x0, d);
    bilinear_weights(b, in_dtype(y - in_dtype((double)y0, d), d), in_dtype(x - in_dtype((double)x0, d), d), d);
    b->place[0] = y0 * row + x0 * col, b->place[1] = y0 * row + x1 * col;
    b->place[2] = y1 * row + x0 * col, b->place[3] = y1 * row + x1 * col;
    return true;
}

// Neighbours outside count as 0; false: all of them do.
INLINE bool bilinear_padded(bilinear *b, double y, double x, int64_t height, int64_t width, int64_t row, int64_t col, nbx_dtype d) {
    if (!(y > -1 && y < (double)height && x > -1 && x < (double)width)) return false;
    const int64_t y0 = (int64_t)floor(y), x0 = (int64_t)floor(x);
    bilinear_weights(b, in_dtype(y - (double)y0, d), in_dtype(x - (double)x0, d), d);
    for (int i = 0; i < 4; i++) {
        const int64_t at_y = y0 + i / 2, at_x = x0 + i % 2;
        b->place[i] = at_y < 0 || at_y >= height || at_x < 0 || at_x >= width ? -1 : at_y * row + at_x * col;
    }
    return true;
}

INLINE double bilinear_value(const bilinear *b, const char *plane, int64_t base, nbx_dtype d) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        const double x = b->place[i] < 0 ? 0 : load_real(plane, base + b->place[i], d);
        const double part = in_dtype(b->weight[i] * x, d);
        sum = i ? in_dtype(sum + part, d) : part;
    }
    return sum;
}

#endif
