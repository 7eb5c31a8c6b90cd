// Reads cpuid and xgetbv once and remembers the answer. Compiled for the baseline.
#include "cpu/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

struct features {
    bool avx2, avx512, avx512_bf16, avx512_vnni;
};

// XCR0: which registers the operating system saves. Bits 1-2 are xmm and ymm, bits 5-7 the AVX-512 state.
static unsigned saved_state(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static struct features read_features(void)
{
    struct features f = {false, false, false, false};
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
    const bool osxsave = (c >> 27) & 1, fma = (c >> 12) & 1, f16c = (c >> 29) & 1;
    if (!osxsave) return f;
    const unsigned state = saved_state();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    f.avx2 = (state & 0x6) == 0x6 && fma && f16c && ((b >> 5) & 1);
    const unsigned f_dq_bw_vl = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);
    f.avx512 = f.avx2 && (state & 0xe6) == 0xe6 && (b & f_dq_bw_vl) == f_dq_bw_vl;
    f.avx512_vnni = f.avx512 && ((c >> 11) & 1);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avx512_bf16 = f.avx512 && ((a >> 5) & 1);
    return f;
}

nbx_isa nbx_isa_detect(void)
{
    const struct features f = read_features();
    return f.avx512 ? NBX_ISA_AVX512 : f.avx2 ? NBX_ISA_AVX2 : NBX_ISA_BASELINE;
}

bool nbx_cpu_has_avx512_bf16(void)
{
    return nbx_isa_best() == NBX_ISA_AVX512 && read_features().avx512_bf16;
}

bool nbx_cpu_has_avx512_vnni(void)
{
    return nbx_isa_best() == NBX_ISA_AVX512 && read_features().avx512_vnni;
}

#else

nbx_isa nbx_isa_detect(void) { return NBX_ISA_BASELINE; }
bool nbx_cpu_has_avx512_bf16(void) { return false; }
bool nbx_cpu_has_avx512_vnni(void) { return false; }

#endif

static const char *const names[NBX_ISA_COUNT] = {"baseline", "avx2", "avx512"};

const char *nbx_isa_name(nbx_isa isa)
{
    return (unsigned)isa < NBX_ISA_COUNT ? names[isa] : "unknown";
}

nbx_isa nbx_isa_parse(const char *name)
{
    for (int i = 0; name != NULL && i < NBX_ISA_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) return (nbx_isa)i;
    }
    return (nbx_isa)-1;
}

nbx_isa nbx_isa_best(void)
{
    static atomic_int known = -1; // racing first calls compute the same answer
    int best = atomic_load_explicit(&known, memory_order_relaxed);
    if (best >= 0) return (nbx_isa)best;
    best = (int)nbx_isa_detect();
    const int wanted = (int)nbx_isa_parse(getenv("NBX_ISA"));
    if (wanted >= 0 && wanted < best) best = wanted;
    atomic_store_explicit(&known, best, memory_order_relaxed);
    return (nbx_isa)best;
}
