// Normal numbers from uniform ones by Box and Muller, for float32: of every 16 the first 8 and the last 8 make pairs.
#include "cpu/simd.h"

#include "cpu/vecmath.h"
#include "ops/random/draw.h"

// u1: radii; u2: angles. Both become normal numbers.
SIMD_INLINE void pairs(vf32 *u1, vf32 *u2, vf32 mean, vf32 std) {
    const vf32 radius = v_sqrt(v_mul(v_set1(-2.0f), v_log(v_sub(v_set1(1.0f), *u1))));
    const vf32 angle = v_mul(v_set1(2.0f * 3.14159265358979323846f), *u2);
    *u1 = v_add(v_mul(v_mul(radius, v_cos(angle)), std), mean);
    *u2 = v_add(v_mul(v_mul(radius, v_sin(angle)), std), mean);
}

void NBX_KERNEL(nbx_normal_pairs)(float *u, int64_t count, float mean, float std) {
    const vf32 m = v_set1(mean), s = v_set1(std);
    for (int64_t i = 0; i + 16 <= count; i += 32) {  // two blocks make a vector of each
        const int64_t second = i + 32 <= count ? i + 16 : i;
        float first[16], last[16];
        memcpy(first, u + i, 32), memcpy(first + 8, u + second, 32);
        memcpy(last, u + i + 8, 32), memcpy(last + 8, u + second + 8, 32);
        vf32 a = v_load(first), b = v_load(last);
        pairs(&a, &b, m, s);
        v_store(first, a), v_store(last, b);
        memcpy(u + i, first, 32), memcpy(u + second, first + 8, 32);
        memcpy(u + i + 8, last, 32), memcpy(u + second + 8, last + 8, 32);
    }
}
