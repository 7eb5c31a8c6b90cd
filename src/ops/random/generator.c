// mt19937 after Matsumoto and Nishimura, seeded as PyTorch seeds it: with the lower 32 bits.
#include "ops/random/generator.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"

enum { N = 624, M = 397 };

void nbx_generator_seed(nbx_generator *g, uint64_t seed) {
    const bool of_host = g->of_host, of_device = g->of_device;
    memset(g, 0, sizeof *g);
    g->of_host = of_host, g->of_device = of_device;
    g->seed = seed;
    g->state[0] = (uint32_t)seed;
    for (uint32_t j = 1; j < N; j++) g->state[j] = 1812433253u * (g->state[j - 1] ^ g->state[j - 1] >> 30) + j;
    g->left = 1;
}

static inline uint32_t twist(uint32_t u, uint32_t v) {
    return ((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1 ^ (v & 1 ? 0x9908b0dfu : 0);
}

static void renew(nbx_generator *g) {
    uint32_t *s = g->state;
    for (int j = 0; j < N - M; j++) s[j] = s[j + M] ^ twist(s[j], s[j + 1]);
    for (int j = N - M; j < N - 1; j++) s[j] = s[j + M - N] ^ twist(s[j], s[j + 1]);
    s[N - 1] = s[M - 1] ^ twist(s[N - 1], s[0]);
    g->left = N;
    g->next = 0;
}

static inline uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

uint32_t nbx_generator_next32(nbx_generator *g) {
    if (--g->left == 0) renew(g);
    return temper(g->state[g->next++]);
}

void nbx_generator_fill32(nbx_generator *g, uint32_t *to, int64_t count) {
    while (count > 0) {
        if (g->left == 1) {
            *to++ = nbx_generator_next32(g), count--;
            continue;
        }
        const int64_t here = g->left - 1 < count ? g->left - 1 : count;
        const uint32_t *s = g->state + g->next;
        for (int64_t i = 0; i < here; i++) to[i] = temper(s[i]);
        g->left -= (int)here, g->next += (int)here;
        to += here, count -= here;
    }
}

uint64_t nbx_generator_next64(nbx_generator *g) {
    const uint64_t high = nbx_generator_next32(g);
    return high << 32 | nbx_generator_next32(g);
}

double nbx_generator_normal(nbx_generator *g) {
    if (g->has_double) {
        g->has_double = false;
        return g->next_double;
    }
    const double u1 = nbx_generator_double(g), u2 = nbx_generator_double(g);
    const double radius = sqrt(-2.0 * log1p(-u2)), angle = 2.0 * 3.14159265358979323846 * u1;
    g->next_double = radius * sin(angle);
    g->has_double = true;
    return radius * cos(angle);
}

// ----------------------------------------------------------------------------------------------------- as callers see it
nbx_generator *nbx_generator_create_on(nbx_context *ctx, nbx_device device, uint64_t seed) {
    nbx_generator *g = nbx_alloc_zero(sizeof *g);
    if (g == NULL) {
        nbx_fail_memory(ctx, sizeof *g, "generator");
        return NULL;
    }
    g->of_host = device.type == NBX_CPU, g->of_device = !g->of_host;
    nbx_generator_seed(g, seed);
    return g;
}

nbx_generator *nbx_generator_create(nbx_context *ctx, uint64_t seed) { return nbx_generator_create_on(ctx, (nbx_device){NBX_CPU, 0}, seed); }

void nbx_generator_destroy(nbx_generator *generator) { nbx_free(generator); }

nbx_generator *nbx_context_generator(nbx_context *ctx) {
    if (ctx->generator == NULL) {
        ctx->generator = nbx_generator_create(ctx, NBX_GENERATOR_DEFAULT_SEED);
        if (ctx->generator) ctx->generator->of_device = true;
        ctx->destroy_generator = nbx_generator_destroy;
    }
    return ctx->generator;
}

nbx_generator *nbx_generator_of(nbx_op_call *c, int arg) {
    nbx_generator *g = arg >= 0 && c->args[arg].kind == NBX_KIND_GENERATOR ? c->args[arg].as.generator : nbx_context_generator(c->ctx);
    if (g == NULL || (c->device.type == NBX_CPU ? g->of_host : g->of_device)) return g;
    nbx_call_fail(c, NBX_ERROR_DEVICE, "the generator is one of a %s", g->of_host ? "CPU" : "GPU");
    return NULL;
}

void nbx_manual_seed(nbx_context *ctx, uint64_t seed) {
    nbx_generator *g = nbx_context_generator(ctx);
    if (g != NULL) nbx_generator_seed(g, seed);
}

void nbx_draw_on_cpu(nbx_context *ctx, bool on) {
    nbx_generator *g = nbx_context_generator(ctx);
    if (g != NULL) g->of_device = !on;
}

// The state as torch.Generator.get_state lays it out.
typedef struct torch_state {
    uint64_t seed;
    int32_t left, seeded;
    uint64_t next, state[N];
    double normal_x, normal_y, normal_rho;
    int32_t has_double, padding;
    float next_float;
    uint8_t has_float, more[3];
} torch_state;

// The same of a CUDA generator.
typedef struct torch_device_state {
    uint64_t seed, offset;
} torch_device_state;

size_t nbx_generator_get_state(const nbx_generator *g, void *bytes, size_t size) {
    const torch_device_state device = {g->seed, g->philox_offset};
    if (!g->of_host) {
        if (bytes != NULL) memcpy(bytes, &device, size < sizeof device ? size : sizeof device);
        return sizeof device;
    }
    torch_state s = {.seed = g->seed, .left = g->left, .seeded = 1, .next = (uint64_t)g->next, .normal_y = g->next_double, .has_double = g->has_double,
                     .next_float = g->next_float, .has_float = g->has_float};
    for (int i = 0; i < N; i++) s.state[i] = g->state[i];
    if (bytes != NULL) memcpy(bytes, &s, size < sizeof s ? size : sizeof s);
    return sizeof s;
}

nbx_status nbx_generator_set_state(nbx_context *ctx, nbx_generator *g, const void *bytes, size_t size) {
    torch_state s;
    torch_device_state device;
    if (g->of_device && size == sizeof device) {
        memcpy(&device, bytes, sizeof device);
        g->seed = device.seed, g->philox_offset = device.offset;
        return NBX_OK;
    }
    if (!g->of_host) return nbx_fail(ctx, NBX_ERROR_FORMAT, "the state of a CUDA generator has %zu bytes, not %zu", sizeof device, size);
    if (size != sizeof s) return nbx_fail(ctx, NBX_ERROR_FORMAT, "a generator's state has %zu bytes, not %zu", sizeof s, size);
    memcpy(&s, bytes, sizeof s);
    if (s.left < 1 || s.left > N || s.next > N) return nbx_fail(ctx, NBX_ERROR_FORMAT, "the bytes are no generator's state");
    nbx_generator_seed(g, s.seed);
    for (int i = 0; i < N; i++) g->state[i] = (uint32_t)s.state[i];
    g->left = s.left;
    g->next = (int)s.next;
    g->has_double = s.has_double != 0;
    g->next_double = s.normal_y;
    g->has_float = s.has_float != 0;
    g->next_float = s.next_float;
    return NBX_OK;
}
