// Numbers of distributions that take as many uniforms as they need, one source for both devices. Who includes this defines
// variate_source, and what draws from one: variate_uniform in [0, 1) and variate_normal.
#ifndef NBX_OPS_VARIATES_H
#define NBX_OPS_VARIATES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define VARIATE static __device__ __noinline__
#else
#define VARIATE static inline
#endif

// Poisson numbers: by products of uniforms below a mean of 10, above it Hoermann's transformed rejection (1993).
VARIATE int64_t poisson_of(variate_source *g, double mean) {
    if (mean < 10) {
        const double limit = exp(-mean);
        double product = mean == 0 ? 0 : variate_uniform(g);
        int64_t k = 0;
        for (; product > limit; k++) product *= variate_uniform(g);
        return k;
    }
    const double root = sqrt(mean), log_mean = log(mean), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = variate_uniform(g) - 0.5, v = variate_uniform(g), us = 0.5 - fabs(u);
        const int64_t k = (int64_t)floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= vr) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= -mean + (double)k * log_mean - lgamma((double)k + 1)) return k;
    }
}

// Gamma numbers after Marsaglia and Tsang (2000); shapes below 1 are raised by a uniform.
VARIATE double gamma_of(variate_source *g, double alpha) {
    double scale = 1;
    if (alpha == 0) return 0;
    if (alpha < 1) {
        scale = pow(1 - variate_uniform(g), 1 / alpha);
        alpha += 1;
    }
    const double d = alpha - 1.0 / 3.0, c = 1 / sqrt(9 * d);
    if (!(d > 0)) return NAN;  // no number would ever be taken
    for (;;) {
        double x, y;
        do {
            x = variate_normal(g);
            y = 1 + c * x;
        } while (y <= 0);
        const double v = y * y * y, u = 1 - variate_uniform(g), xx = x * x;
        if (u < 1 - 0.0331 * xx * xx || log(u) < 0.5 * xx + d * (1 - v + log(v))) return scale * d * v;
    }
}

VARIATE double stirling_tail(double k) {
    const double first[] = {0.0810614667953272,  0.0413406959554092,  0.0276779256849983,  0.02079067210376509, 0.0166446911898211,
                                   0.0138761288230707,  0.0118967099458917,  0.0104112652619720,  0.00925546218271273, 0.00833056343336287};
    if (k <= 9) return first[(int)k];
    const double next = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / next) / next) / (k + 1);
}

// Binomial numbers: by waiting times when few successes are expected, else Hoermann's BTRS (1993).
VARIATE double binomial_of(variate_source *g, double count, double p) {
    if (count <= 0 || p <= 0) return 0;
    if (p >= 1) return count;
    if (p != p || !(count <= 9e15)) return (double)NAN;  // no integers any more, or no number
    const bool mirrored = p > 0.5;
    if (mirrored) p = 1 - p;
    if (count * p < 10) {
        double sum = 0, successes = 0;
        for (;;) {
            sum += ceil(log(variate_uniform(g)) / log1p(-p));
            if (sum > count) return mirrored ? count - successes : successes;
            successes++;
        }
    }
    const double spread = sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, vr = 0.92 - 4.2 / b;
    const double r = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread, m = floor((count + 1) * p);
    for (;;) {
        const double u = variate_uniform(g) - 0.5, v = variate_uniform(g), us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= vr) return mirrored ? count - k : k;
        if (k < 0 || k > count) continue;
        const double left = log(v * alpha / (a / (us * us) + b));
        const double right = (m + 0.5) * log((m + 1) / (r * (count - m + 1))) + (count + 1) * log((count - m + 1) / (count - k + 1)) +
                             (k + 0.5) * log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) + stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
        if (left <= right) return mirrored ? count - k : k;
    }
}

#endif
