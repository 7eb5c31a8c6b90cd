// Special functions of one double (or two), accurate to a few 1e-15 relative where not said otherwise. Series near 0,
// recurrences and asymptotic expansions far out; integrals of Bessel type by the trapezoidal rule, which converges
// exponentially for them.
#ifndef NBX_OPS_ELEMENTWISE_SPECIAL_MATH_H
#define NBX_OPS_ELEMENTWISE_SPECIAL_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

// One source for the CPU and for CUDA.
#ifdef __CUDACC__
#define SPECIAL_FUNCTION static __device__ __noinline__
#define SPECIAL_TABLE static __device__ const
#else
#define SPECIAL_FUNCTION static inline
#define SPECIAL_TABLE static const
#endif

#define SPECIAL_PI 3.14159265358979323846
#define SPECIAL_NAN ((double)NAN)
#define SPECIAL_INF ((double)INFINITY)

// --------------------------------------------------------------------------------------------------------------- gamma
// Bernoulli numbers B2, B4, ...
SPECIAL_TABLE double special_bernoulli[] = {1.0 / 6,     -1.0 / 30,    1.0 / 42,        -1.0 / 30,    5.0 / 66,
                                           -691.0 / 2730, 7.0 / 6,    -3617.0 / 510,   43867.0 / 798, -174611.0 / 330};

// psi(x): reflection for x < 0, recurrence up to 10, then log x - 1/2x - sum B2k / (2k x^2k).
SPECIAL_FUNCTION double special_digamma(double x) {
    if (x == 0) return copysign(SPECIAL_INF, -x);
    double add = 0;
    if (x < 0) {
        if (x == trunc(x)) return SPECIAL_NAN;
        const double fraction = x - trunc(x);
        add = -SPECIAL_PI / tan(SPECIAL_PI * fraction);
        x = 1 - x;
    }
    if (isinf(x)) return x;
    while (x < 10) {
        add -= 1 / x;
        x += 1;
    }
    const double inverse = 1 / (x * x);
    double sum = 0;
    for (int k = 7; k >= 0; k--) sum = (sum + special_bernoulli[k] / (2 * (k + 1))) * inverse;
    return add + log(x) - 0.5 / x - sum;
}

// Hurwitz zeta by Euler and Maclaurin: terms up to q + N > 10, an integral, half a term, Bernoulli corrections.
SPECIAL_FUNCTION double special_zeta(double s, double q) {
    if (s == 1) return SPECIAL_INF;
    if (s < 1) return SPECIAL_NAN;
    if (q <= 0) {
        if (q == floor(q)) return SPECIAL_INF;
        if (s != floor(s)) return SPECIAL_NAN;
    }
    if (q < -64) {  // the negative terms mirror a stretch of the positive ones
        const double f = q - floor(q), sign = s > 9e15 || fmod(s, 2.0) == 0 ? 1 : -1;
        return special_zeta(s, f) + sign * (special_zeta(s, 1 - f) - (s > 1e15 ? 0 : special_zeta(s, 1 - q)));
    }
    if (isinf(q)) return SPECIAL_NAN;
    double sum = 0;
    for (int i = 0; i < 12 || q < 10; i++) {
        const double term = pow(q, -s);
        sum += term;
        q += 1;
        if (i > 0 && fabs(term) < 1e-17 * fabs(sum)) return sum;
    }
    if (s > 1e15) return SPECIAL_NAN;  // all terms are 0: ATen's answer
    const double power = pow(q, -s);
    sum += power * q / (s - 1) + power / 2;
    double factor = s * power / q, factorial = 2;  // s (s+1) ... (s+2k-2) q^(-s-2k+1) over (2k)!
    for (int k = 0; k < 10; k++) {
        const double term = special_bernoulli[k] * factor / factorial;
        sum += term;
        if (fabs(term) < 1e-17 * fabs(sum)) break;
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q);
        factorial *= (2 * k + 3) * (2 * k + 4);
    }
    return sum;
}

SPECIAL_FUNCTION double special_trigamma(double x) {
    if (x < 0.5) {
        const double s = sin(SPECIAL_PI * x);
        return -special_zeta(2, 1 - x) + SPECIAL_PI * SPECIAL_PI / (s * s);
    }
    return special_zeta(2, x);
}

SPECIAL_FUNCTION double special_polygamma(double n, double x) {
    if (n == 0) return special_digamma(x);
    if (n == 1) return special_trigamma(x);
    return (fmod(n, 2.0) != 0 ? 1 : -1) * tgamma(n + 1) * special_zeta(n + 1, x);
}

// x^a e^-x / Gamma(a + 1), without cancelling where a and x are large and close.
SPECIAL_FUNCTION double special_gamma_prefix(double a, double x) {
    if (a < 20) return exp(a * log(x) - x - lgamma(a + 1));
    const double t = (x - a) / a, inverse = 1 / (a * a);
    const double stirling = (1.0 / 12 - inverse * (1.0 / 360 - inverse * (1.0 / 1260 - inverse / 1680))) / a;
    const double exponent = fabs(t) < 0.4 ? a * (log1p(t) - t) : a * log(x / a) + a - x;
    return exp(exponent - stirling) / sqrt(2 * SPECIAL_PI * a);
}

// The series of the lower function, and the continued fraction of the upper one (Lentz).
SPECIAL_FUNCTION double special_gamma_series(double a, double x) {
    double term = 1, sum = 1;
    for (int k = 1; k < 100000; k++) {
        term *= x / (a + k);
        sum += term;
        if (term < 1e-17 * sum) break;
    }
    return sum * special_gamma_prefix(a, x);
}
SPECIAL_FUNCTION double special_gamma_fraction(double a, double x) {
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < 100000; k++) {
        const double an = -k * (k - a);
        b += 2;
        d = an * d + b;
        if (fabs(d) < 1e-300) d = 1e-300;
        c = b + an / c;
        if (fabs(c) < 1e-300) c = 1e-300;
        d = 1 / d;
        const double delta = d * c;
        h *= delta;
        if (fabs(delta - 1) < 1e-16) break;
    }
    return h * a * special_gamma_prefix(a, x);
}

// P (side -1) or Q (side 1) for large a and x near it: Temme's uniform expansion, its first two terms (1e-10 from a = 1e8 on).
SPECIAL_FUNCTION double special_gamma_uniform(double a, double x, int side) {
    const double m = (x - a) / a;
    const double half_square = fabs(m) < 0.01 ? m * m * (0.5 - m * (1.0 / 3 - m * (0.25 - m * (0.2 - m / 6)))) : m - log1p(m);
    const double eta = copysign(sqrt(2 * half_square), m);
    const double first = fabs(eta) < 0.01 ? -1.0 / 3 + eta * (1.0 / 12 - eta * 2.0 / 135) : 1 / m - 1 / eta;
    return 0.5 * erfc(side * eta * sqrt(a / 2)) + side * first * exp(-a * half_square) / sqrt(2 * SPECIAL_PI * a);
}

// Regularised incomplete gamma functions P and Q.
SPECIAL_FUNCTION double special_gammainc(double a, double x) {
    if (x < 0 || a < 0) return SPECIAL_NAN;
    if (a == 0) return x > 0 ? 1 : SPECIAL_NAN;
    if (x == 0) return 0;
    if (isinf(a)) return isinf(x) ? SPECIAL_NAN : 0;
    if (isinf(x)) return 1;
    if (x != x || a != a) return SPECIAL_NAN;
    if (a > 1e8 && fabs(x - a) < 0.3 * a) return special_gamma_uniform(a, x, -1);
    return x < a + 1 ? special_gamma_series(a, x) : 1 - special_gamma_fraction(a, x);
}
SPECIAL_FUNCTION double special_gammaincc(double a, double x) {
    if (x < 0 || a < 0) return SPECIAL_NAN;
    if (a == 0) return x > 0 ? 0 : SPECIAL_NAN;
    if (x == 0) return 1;
    if (isinf(a)) return isinf(x) ? SPECIAL_NAN : 1;
    if (isinf(x)) return 0;
    if (x != x || a != a) return SPECIAL_NAN;
    if (a > 1e8 && fabs(x - a) < 0.3 * a) return special_gamma_uniform(a, x, 1);
    return x < a + 1 ? 1 - special_gamma_series(a, x) : special_gamma_fraction(a, x);
}

// --------------------------------------------------------------------------------------------------------- normal, error
// e^(x^2) erfc(x)
SPECIAL_FUNCTION double special_erfcx(double x) {
    if (x != x) return x;
    if (x < 10) {
        if (x < -26.7) return SPECIAL_INF;
        const double high = floor(x * 65536) / 65536, low = (x - high) * (x + high);  // x^2 in two parts
        return exp(high * high) * exp(low) * erfc(x);
    }
    if (x > 1e8) return 0.56418958354775628695 / x;
    const double step = -0.5 / (x * x);
    double term = 1, sum = 1;
    for (int k = 1; k < 20; k++) {
        term *= step * (2 * k - 1);
        sum += term;
        if (fabs(term) < 1e-17) break;
    }
    return 0.56418958354775628695 / x * sum;
}

SPECIAL_FUNCTION double special_ndtr(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
SPECIAL_FUNCTION double special_log_ndtr(double x) {
    const double t = x * 0.70710678118654752440;
    if (x < -1) return log(special_erfcx(-t) / 2) - t * t;
    return log1p(-erfc(t) / 2);
}

// The inverse of ndtr: a start from the tail expansion, then Halley's steps (each triples the digits).
SPECIAL_FUNCTION double special_ndtri(double p) {
    if (p != p || p < 0 || p > 1) return SPECIAL_NAN;
    if (p == 0) return -SPECIAL_INF;
    if (p == 1) return SPECIAL_INF;
    if (p > 0.5) {
        const double q = 1 - p;  // exact
        return q == 0.5 ? 0 : -special_ndtri(q);
    }
    double x;
    if (p > 0.1) {
        const double r = p - 0.5;
        x = r * 2.50662827463100050242 * (1 + r * r * 1.047197551196598);
    } else {
        const double t = sqrt(-2 * log(p));
        x = -(t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + 0.04481 * t)));
    }
    for (int i = 0; i < 4; i++) {  // in units of the density: works in the far tail, too
        const double ratio = special_erfcx(-x * 0.70710678118654752440) * 1.25331413731550025121;  // ndtr / density
        const double scaled = p * exp(0.5 * x * x) * 2.50662827463100050242;                       // p / density
        const double u = ratio - scaled;
        const double next = x - u / (1 + 0.5 * x * u);
        if (fabs(next - x) <= 1e-16 * fabs(x)) return next;
        x = next;
    }
    return x;
}

SPECIAL_FUNCTION double special_erfinv(double y) {
    if (y != y || y < -1 || y > 1) return SPECIAL_NAN;
    if (fabs(y) == 1) return copysign(SPECIAL_INF, y);
    if (fabs(y) > 0.9) return copysign(special_ndtri((1 - fabs(y)) / 2) * -0.70710678118654752440, y);
    double x = y * 0.88622692545275801365 * (1 + y * y * 0.26179938779914943654);
    for (int i = 0; i < 5; i++) {
        const double u = (erf(x) - y) * 0.88622692545275801365 * exp(x * x), step = u / (1 + x * u);
        x -= step;
        if (fabs(step) <= 1e-16 * fabs(x)) break;
    }
    return x;
}

SPECIAL_FUNCTION double special_entr(double x) {
    if (x != x) return x;
    return x > 0 ? -x * log(x) : x == 0 ? 0 : -SPECIAL_INF;
}

// -------------------------------------------------------------------------------------------------------------- Bessel
// e^-|x| I_n(x), n = 0 or 1: the power series (all terms positive), far out the asymptotic one.
SPECIAL_FUNCTION double special_ie(int n, double x) {
    const double size = fabs(x), sign = n && x < 0 ? -1 : 1;
    if (x != x) return x;
    if (isinf(x)) return 0;
    if (size < 30) {
        const double quarter = size * size / 4;
        double term = n ? size / 2 : 1, sum = term;
        for (int k = 1; k < 200; k++) {
            term *= quarter / ((double)k * (k + n));
            sum += term;
            if (term < 1e-17 * sum) break;
        }
        return sign * sum * exp(-size);
    }
    const double mu = 4.0 * n * n;
    double term = 1, sum = 1;
    for (int k = 1; k < 40; k++) {
        const double odd = 2 * k - 1;
        const double next = -term * (mu - odd * odd) / (k * 8 * size);
        if (fabs(next) < 1e-17 * fabs(sum)) break;
        term = next;
        sum += term;
    }
    return sign * sum / sqrt(2 * SPECIAL_PI * size);
}
SPECIAL_FUNCTION double special_i0e(double x) { return special_ie(0, x); }
SPECIAL_FUNCTION double special_i1e(double x) { return special_ie(1, x); }
SPECIAL_FUNCTION double special_i(int n, double x) {
    const double scaled = special_ie(n, x);
    if (isinf(x)) return SPECIAL_NAN;  // as ATen: 0 times infinity
    if (fabs(x) > 714) return n && x < 0 ? -SPECIAL_INF : SPECIAL_INF;
    return fabs(x) < 700 ? scaled * exp(fabs(x)) : scaled * exp(fabs(x) / 2) * exp(fabs(x) / 2);
}
SPECIAL_FUNCTION double special_i0(double x) { return special_i(0, x); }
SPECIAL_FUNCTION double special_i1(double x) { return special_i(1, x); }

// e^x K_nu(x) = integral over t > 0 of e^(-x (cosh t - 1)) cosh(nu t), x > 0.
SPECIAL_FUNCTION double special_ke_integral(double nu, double x) {
    const int pieces = x < 1e-3 ? 512 : 256;
    const double end = 2 * asinh(sqrt(375 / x)), step = end / pieces;
    double sum = 0.5;
    for (int i = 1; i <= pieces; i++) {
        const double t = i * step, half = sinh(t / 2), term = exp(-2 * x * half * half) * cosh(nu * t);
        sum += term;
        if (term < 1e-18 * sum) break;
    }
    return sum * step;
}
// e^x K_n(x), n = 0 or 1. Small x: by I_n and a series with a logarithm.
SPECIAL_FUNCTION double special_ke(int n, double x) {
    if (x != x || x < 0) return SPECIAL_NAN;
    if (x == 0) return SPECIAL_INF;
    if (isinf(x)) return 0;
    if (x > 1) return special_ke_integral(n, x);
    const double quarter = x * x / 4, log_half = log(x / 2) + 0.57721566490153286061;
    double term = n ? x / 2 : 1, harmonic = 0, sum = 0, i = 0;  // terms of I_n
    for (int k = 0; k < 20; k++) {
        if (k) {
            term *= quarter / ((double)k * (k + n));
            harmonic += 1.0 / k;
        }
        i += term;
        sum += n ? term * (harmonic + (harmonic + 1.0 / (k + 1))) / 2 : term * harmonic;
    }
    const double value = n ? 1 / x + log_half * i - sum : sum - log_half * i;
    return value * exp(x);
}
SPECIAL_FUNCTION double special_k0e(double x) { return special_ke(0, x); }
SPECIAL_FUNCTION double special_k1e(double x) { return special_ke(1, x); }
SPECIAL_FUNCTION double special_k0(double x) { return special_ke(0, x) * exp(-x); }
SPECIAL_FUNCTION double special_k1(double x) { return special_ke(1, x) * exp(-x); }

SPECIAL_FUNCTION double special_j0(double x) { return isinf(x) ? SPECIAL_NAN : j0(x); }
SPECIAL_FUNCTION double special_j1(double x) { return isinf(x) ? SPECIAL_NAN : j1(x); }
SPECIAL_FUNCTION double special_y0(double x) { return x < 0 ? SPECIAL_NAN : x == 0 ? -SPECIAL_INF : isinf(x) ? SPECIAL_NAN : y0(x); }
SPECIAL_FUNCTION double special_y1(double x) { return x < 0 ? SPECIAL_NAN : x == 0 ? -SPECIAL_INF : isinf(x) ? SPECIAL_NAN : y1(x); }

SPECIAL_FUNCTION double special_spherical_j0(double x) {
    if (isinf(x)) return 0;
    if (fabs(x) < 0.5) {
        const double s = x * x;
        return 1 - s / 6 * (1 - s / 20 * (1 - s / 42 * (1 - s / 72 * (1 - s / 110 * (1 - s / 156)))));
    }
    return sin(x) / x;
}

// Ai. |x| <= 4: the two power series; right of that sqrt(x/3)/pi K_1/3; left of that the asymptotic sums (1e-12).
SPECIAL_FUNCTION double special_airy(double x) {
    if (x != x || isinf(x)) return SPECIAL_NAN;
    if (x > 103.892) return 0;
    if (x > 1) {
        const double z = 2.0 / 3 * x * sqrt(x);
        return sqrt(x / 3) / SPECIAL_PI * special_ke_integral(1.0 / 3, z) * exp(-z);
    }
    if (x > -7) {
        const double cube = x * x * x;
        double f = 1, g = x, term_f = 1, term_g = x;
        for (int k = 1; k < 100; k++) {
            term_f *= cube / ((3.0 * k - 1) * (3.0 * k));
            term_g *= cube / ((3.0 * k) * (3.0 * k + 1));
            f += term_f;
            g += term_g;
            if (fabs(term_f) < 1e-18 && fabs(term_g) < 1e-18) break;
        }
        return 0.355028053887817239260 * f - 0.258819403792806798405 * g;
    }
    const double z = 2.0 / 3 * -x * sqrt(-x);
    double term = 1, even = 1, odd = 0;  // u_k / z^k with alternating signs
    for (int k = 1; k < 30; k++) {
        const double next = term * (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2 * k - 1)) / z;
        if (next > term || next < 1e-17) break;
        term = next;
        const double sign = k / 2 % 2 ? -1 : 1;
        if (k % 2) odd += sign * term;
        else even += sign * term;
    }
    const double angle = z - SPECIAL_PI / 4;
    return (cos(angle) * even + sin(angle) * odd) / (sqrt(SPECIAL_PI) * pow(-x, 0.25));
}

// --------------------------------------------------------------------------------------------------------- polynomials
// By three-term recurrence; degree below 0 gives 0. Longer recurrences than this have no digit left, and would take minutes.
enum { SPECIAL_LONGEST_RECURRENCE = 1 << 20 };
SPECIAL_FUNCTION double special_chebyshev(double x, int64_t n, int kind) {  // kind 0 to 3: T, U, V, W
    if (n < 0) return 0;
    if (kind == 0) {
        if (fabs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
        if (n > 6 && fabs(x) < 1) return cos((double)n * acos(x));
    } else if (kind == 1) {
        if (fabs(x) == 1) return x > 0 || n % 2 == 0 ? (double)n + 1 : -((double)n + 1);
        if (n > 8 && fabs(x) < 1) {
            const double t = acos(x);
            return sin(t) != 0 ? sin(((double)n + 1) * t) / sin(t) : ((double)n + 1) * cos(((double)n + 1) * t) / x;
        }
    } else if (kind == 2) {
        if (fabs(x) == 1) return x > 0 ? 1 : (n % 2 == 0 ? 1 : -1) * (2 * (double)n + 1);
        if (n > 8 && fabs(x) < 1) {
            const double t = acos(x);
            return sin(t / 2) != 1 ? cos(((double)n + 0.5) * t) / cos(t / 2) : n % 2 == 0 ? 2 * (double)n + 1 : -(2 * (double)n + 1);
        }
    } else {
        if (fabs(x) == 1) return x > 0 ? 2 * (double)n + 1 : n % 2 == 0 ? 1 : -1;
        if (n > 8 && fabs(x) < 1) {
            const double t = acos(x);
            return cos(t / 2) != 1 ? sin(((double)n + 0.5) * t) / sin(t / 2) : x > 0 ? 2 * (double)n + 1 : n % 2 == 0 ? 1 : -1;
        }
    }
    const double first[] = {x, 2 * x, 2 * x - 1, 2 * x + 1};
    double before = 1, now = first[kind];
    if (n == 0) return 1;
    if (n > SPECIAL_LONGEST_RECURRENCE) return (double)NAN;
    for (int64_t k = 2; k <= n && now == now; k++) {
        const double next = 2 * x * now - before;
        before = now;
        now = next;
    }
    return now;
}
SPECIAL_FUNCTION double special_hermite(double x, int64_t n, bool physicist) {
    if (n < 0) return 0;
    const double factor = physicist ? 2 : 1;
    double before = 1, now = factor * x;
    if (n == 0) return 1;
    if (n > SPECIAL_LONGEST_RECURRENCE) return (double)NAN;
    for (int64_t k = 2; k <= n && now == now; k++) {
        const double next = factor * (x * now - (double)(k - 1) * before);
        before = now;
        now = next;
    }
    return now;
}
SPECIAL_FUNCTION double special_laguerre(double x, int64_t n) {
    if (n < 0) return 0;
    if (x == 0 || n == 0) return 1;
    double before = 1, now = 1 - x;
    if (n > SPECIAL_LONGEST_RECURRENCE) return (double)NAN;
    for (int64_t k = 1; k < n && now == now; k++) {
        const double next = ((2 * (double)k + 1 - x) * now - (double)k * before) / ((double)k + 1);
        before = now;
        now = next;
    }
    return now;
}
SPECIAL_FUNCTION double special_legendre(double x, int64_t n) {
    if (n < 0) return 0;
    if (fabs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
    if (n == 0) return 1;
    double before = 1, now = x;
    if (n > SPECIAL_LONGEST_RECURRENCE) return (double)NAN;
    for (int64_t k = 1; k < n && now == now; k++) {
        const double next = ((2 * (double)k + 1) * x * now - (double)k * before) / ((double)k + 1);
        before = now;
        now = next;
    }
    return now;
}

// ------------------------------------------------------------------------------------------------ what float32 gives
// ATen's float32 (narrow) leaves the functions above at the ends of their range.
SPECIAL_FUNCTION double special_i_of(int n, double x, bool narrow) {  // overflows where e^|x| does
    const double y = special_i(n, x);
    return narrow && fabs(x) > 88.72283935546875 && !isinf(x) ? copysign(SPECIAL_INF, y) : y;
}
// e^(x^2) of a negative x is the part of the result that counts, and float32's square of x is what ATen has there.
SPECIAL_FUNCTION double special_erfcx_of(double x, bool narrow) {
    return narrow && x < 0 && x >= -26.7 ? 2 * exp((double)(float)(x * x)) - special_erfcx(-x) : special_erfcx(x);
}
SPECIAL_FUNCTION double special_airy_of(double x, bool narrow) {  // the phase is beyond float
    return narrow && x < -6.3e25 ? SPECIAL_NAN : special_airy(x);
}
SPECIAL_FUNCTION double special_polygamma_of(double n, double x, bool narrow) {
    const bool pole = n == 1 && x <= 0 && x == floor(x);
    if (narrow && n > 1)  // either factor may lie beyond float
        return (double)((float)((fmod(n, 2.0) != 0 ? 1 : -1) * tgamma(n + 1)) * (float)special_zeta(n + 1, x));
    if (!pole || !narrow) return special_polygamma(n, x);
    const double s = sin((double)((float)SPECIAL_PI * (float)x));  // a sine that float misses 0 by
    return s == 0 ? SPECIAL_INF : SPECIAL_PI * SPECIAL_PI / (s * s);
}

typedef enum special_family {
    SPECIAL_CHEBYSHEV_T, SPECIAL_CHEBYSHEV_U, SPECIAL_CHEBYSHEV_V, SPECIAL_CHEBYSHEV_W,
    SPECIAL_SHIFTED_T, SPECIAL_SHIFTED_U, SPECIAL_SHIFTED_V, SPECIAL_SHIFTED_W,
    SPECIAL_HERMITE_H, SPECIAL_HERMITE_HE, SPECIAL_LAGUERRE, SPECIAL_LEGENDRE,
} special_family;

SPECIAL_FUNCTION double special_member(special_family family, double x, double degree) {
    const int64_t n = degree >= -9e15 && degree <= 9e15 ? (int64_t)degree : -1;  // cut to an integer
    if (family < SPECIAL_SHIFTED_T) return special_chebyshev(x, n, (int)family);
    if (family < SPECIAL_HERMITE_H) return special_chebyshev(x + x - 1, n, (int)family - (int)SPECIAL_SHIFTED_T);
    if (family == SPECIAL_LAGUERRE) return special_laguerre(x, n);
    return family == SPECIAL_LEGENDRE ? special_legendre(x, n) : special_hermite(x, n, family == SPECIAL_HERMITE_H);
}
// float32's recurrences: two steps past the largest float they subtract infinities.
SPECIAL_FUNCTION double special_polynomial(special_family family, double x, double degree, bool narrow) {
    const double top = 3.4028234663852886e38, y = special_member(family, x, degree);
    return narrow && fabs(y) > top && fabs(special_member(family, x, degree - 2)) > top ? SPECIAL_NAN : y;
}

#endif
