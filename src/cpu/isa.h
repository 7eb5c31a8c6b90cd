// Which instruction set the CPU kernels use, and how one source file becomes one kernel per instruction set.
//
// A file named *_cpu.c is compiled once per instruction set with NBX_ISA_SUFFIX (baseline, avx2, avx512) and
// NBX_ISA_LEVEL (0, 1, 2) defined, so NBX_KERNEL(softmax_cpu) becomes softmax_cpu_avx2 in the second of them. Outside
// these files the kernel for the running machine is chosen from a table of three, indexed by nbx_isa_best().
// On aarch64 there is one level, baseline, which is NEON and has FMA; it returns the bits that AVX2 returns.
#ifndef NBX_CPU_ISA_H
#define NBX_CPU_ISA_H

#include <stdbool.h>

typedef enum nbx_isa { NBX_ISA_BASELINE, NBX_ISA_AVX2, NBX_ISA_AVX512 } nbx_isa;

#define NBX_ISA_COUNT 3

// The best set that this CPU and its operating system support. Detected once; the environment variable
// NBX_ISA=baseline|avx2|avx512 lowers it (a value above what the machine has, or an unknown word, changes nothing).
//   avx2 means AVX2 + FMA + F16C; avx512 means those and AVX512 F, BW, DQ, VL.
nbx_isa nbx_isa_best(void);

// What the machine has, whatever NBX_ISA says.
nbx_isa nbx_isa_detect(void);

// "avx2" -> NBX_ISA_AVX2; an unknown word or NULL -> -1 cast to nbx_isa, so test with (int)isa < 0.
nbx_isa nbx_isa_parse(const char *name);

// "baseline", "avx2" or "avx512".
const char *nbx_isa_name(nbx_isa isa);

// Extras that a tuned kernel may ask for. false on other architectures.
bool nbx_cpu_has_avx512_bf16(void);
bool nbx_cpu_has_avx512_vnni(void);

#ifdef NBX_ISA_SUFFIX
#define NBX_ISA_JOIN_(name, suffix) name##_##suffix
#define NBX_ISA_JOIN(name, suffix) NBX_ISA_JOIN_(name, suffix)
#define NBX_KERNEL(name) NBX_ISA_JOIN(name, NBX_ISA_SUFFIX)
#endif

#endif
