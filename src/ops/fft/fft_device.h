// How a line is transformed on a device, and what scratch that takes.
//   whole   the points of a line in the shared memory of a block
//   split   n = n1 x n2: a block for each column, twiddle factors, a block for each row
//   chirp   n with a prime factor above 7, or that does not split: the convolution of Bluestein with m = 2^k >= 2n - 1 points
#ifndef NBX_OPS_FFT_DEVICE_H
#define NBX_OPS_FFT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fft_device {
    int64_t n, m;           // m: of the convolution, else n
    int64_t n1, n2;         // m = n1 x n2; whole: n2 is 1
    int64_t chunk;          // lines at a time
    size_t spectrum_bytes, line_bytes;  // scratch: the spectrum of the chirp, a line (chirp), as much for the columns (split)
    size_t bytes;
} fft_device;

static inline int64_t fft_device_most(bool double_precision) { return double_precision ? 4096 : 8192; }

static inline bool fft_device_smooth(int64_t n) {
    for (int p = 2; p <= 7; p++)
        while (n % p == 0) n /= p;
    return n == 1;
}

// The factor of m closest to its root; false: the other one is longer than a block takes.
static inline bool fft_device_split(fft_device *d, int64_t most) {
    d->n1 = d->m, d->n2 = 1;
    if (d->m <= most) return true;
    for (int64_t f = 1; f <= most && f * f <= d->m; f++)
        if (d->m % f == 0) d->n1 = d->m / f, d->n2 = f;
    return d->n1 <= most;
}

static inline bool fft_device_plan(fft_device *d, int64_t n, int64_t lines, bool double_precision) {
    const int64_t most = fft_device_most(double_precision);
    const size_t size = double_precision ? 16 : 8;
    d->n = d->m = n;
    const bool plain = fft_device_smooth(n) && fft_device_split(d, most);
    if (!plain) {
        if (n > most * most / 2) return false;
        for (d->m = 1; d->m < 2 * n - 1;) d->m *= 2;
        fft_device_split(d, most);
    }
    d->line_bytes = (size_t)d->m * size;
    d->spectrum_bytes = plain ? 0 : d->line_bytes;
    d->chunk = ((int64_t)1 << 24) / d->m + 1;
    if (d->chunk > lines || (plain && d->n2 == 1)) d->chunk = lines;
    d->bytes = d->spectrum_bytes + (size_t)d->chunk * d->line_bytes * (size_t)(!plain + (d->n2 > 1));
    return true;
}

#endif
