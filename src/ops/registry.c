// The table of all operators: every name of schemas.def, joined with the rows of ops.def. Built on first use.
#include "ops/registry.h"
#include "core/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NBX_OPS(file) extern const nbx_op nbx_ops_##file[];
#include "ops/ops.def"
#undef NBX_OPS

static const nbx_op *const rows[] = {
#define NBX_OPS(file) nbx_ops_##file,
#include "ops/ops.def"
#undef NBX_OPS
    NULL,
};

typedef struct known {
    const char *text, *base;
    uint32_t tags;
    nbx_form form;
} known;

static const known knowns[] = {
#define NBX_SCHEMA(text, tags) {text, NULL, tags, NBX_FORM_FUNCTIONAL},
#define NBX_NAMED(text, tags) {text, NULL, tags, NBX_FORM_FUNCTIONAL},
#define NBX_INPLACE(text, base, tags) {text, base, tags, NBX_FORM_IN_PLACE},
#define NBX_OUT(text, base, tags) {text, base, tags, NBX_FORM_OUT},
#include "ops/schemas.def"
#undef NBX_SCHEMA
#undef NBX_NAMED
#undef NBX_INPLACE
#undef NBX_OUT
};

// What stands in for code: src/program, or a reason (uncoded.def).
typedef struct uncoded {
    const char *name, *reason;  // reason NULL: runs in programs
} uncoded;

static const uncoded uncodeds[] = {
#define NBX_IN_PROGRAMS(name) {name, NULL},
#define NBX_REFUSED(name, reason) {name, reason},
#include "ops/uncoded.def"
#undef NBX_IN_PROGRAMS
#undef NBX_REFUSED
};

enum { KNOWN_COUNT = sizeof knowns / sizeof *knowns };
enum { SLOTS = 8192 };  // power of two, more than twice the names

typedef struct table {
    nbx_operator *operators;          // [KNOWN_COUNT], then users' own (each allocated by itself)
    nbx_operator *slots[SLOTS];
    nbx_operator *sorted[SLOTS / 2];  // by name
    size_t count;
} table;

static table *built;  // set once, atomically
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t hash(const char *name, size_t length) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < length; i++) h = (h ^ (uint8_t)name[i]) * 16777619u;
    return h ^ h >> 15;
}

static size_t name_length(const char *text) { return strcspn(text, "("); }

static nbx_operator **slot_of(table *t, const char *name, size_t length) {
    for (uint32_t at = hash(name, length);; at++) {
        nbx_operator **slot = &t->slots[at & (SLOTS - 1)];
        nbx_operator *op = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        if (!op || (strncmp(op->name, name, length) == 0 && op->name[length] == 0)) return slot;
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(nbx_operator *const *)a)->name, (*(nbx_operator *const *)b)->name);
}

static bool add_known(table *t, nbx_operator *op, const known *k) {
    const size_t length = name_length(k->text);
    op->name = nbx_alloc(length + 1);
    if (!op->name) return false;
    memcpy(op->name, k->text, length);
    op->name[length] = 0;
    op->text = k->text;
    op->tags = k->tags;
    op->form = k->form;
    nbx_operator **slot = slot_of(t, op->name, length);
    if (!*slot) *slot = op;
    t->sorted[t->count++] = op;
    return true;
}

static void join_rows(table *t) {
    for (size_t i = 0; rows[i]; i++)
        for (const nbx_op *row = rows[i]; row->name; row++) {
            nbx_operator *op = *slot_of(t, row->name, strlen(row->name));
            if (!op) continue;  // a row without a schema: registry_test names it
            op->op = row;
            op->form = NBX_FORM_FUNCTIONAL;
        }
    for (int i = 0; i < KNOWN_COUNT; i++) {
        nbx_operator *op = &t->operators[i];
        if (op->op || !knowns[i].base) continue;
        op->base = *slot_of(t, knowns[i].base, strlen(knowns[i].base));
        if (op->base) op->op = op->base->op;
    }
}

static void destroy(table *t) {
    for (size_t i = 0; t->operators && i < KNOWN_COUNT; i++) nbx_free(t->operators[i].name);
    nbx_free(t->operators);
    nbx_free(t);
}

static table *build(void) {
    table *t = nbx_alloc_zero(sizeof *t);
    if (!t) return NULL;
    t->operators = nbx_alloc_zero(KNOWN_COUNT * sizeof(nbx_operator));
    bool complete = t->operators != NULL;
    for (size_t i = 0; complete && i < KNOWN_COUNT; i++) complete = add_known(t, &t->operators[i], &knowns[i]);
    if (!complete) {
        destroy(t);
        return NULL;
    }
    join_rows(t);
    qsort(t->sorted, t->count, sizeof *t->sorted, by_name);
    return t;
}

static table *get(void) {
    table *t = __atomic_load_n(&built, __ATOMIC_ACQUIRE);
    if (t) return t;
    pthread_mutex_lock(&lock);
    if (!built) __atomic_store_n(&built, build(), __ATOMIC_RELEASE);
    t = built;
    pthread_mutex_unlock(&lock);
    return t;
}

// "torch.ops.aten.add.Tensor", "aten.add.Tensor", "aten::add.Tensor", "add.Tensor", "relu.default" -> "aten::..."
static size_t normal_name(const char *name, char *normal, size_t size) {
    if (strncmp(name, "torch.ops.", 10) == 0) name += 10;
    const char *colons = strstr(name, "::");
    const char *dot = strchr(name, '.');
    size_t length = strlen(name);
    if (length > 8 && strcmp(name + length - 8, ".default") == 0) length -= 8;
    if (length + 8 > size) return 0;
    if (colons) {
        memcpy(normal, name, length);
    } else if (dot && (strncmp(name, "aten.", 5) == 0 || strncmp(name, "prims.", 6) == 0 || strchr(dot + 1, '.'))) {
        const size_t space = (size_t)(dot - name);  // a namespace in front
        memcpy(normal, name, space);
        memcpy(normal + space, "::", 2);
        memcpy(normal + space + 2, dot + 1, length - space - 1);
        length++;
    } else {
        memcpy(normal, "aten::", 6);
        memcpy(normal + 6, name, length);
        length += 6;
    }
    normal[length] = 0;
    return length;
}

nbx_operator *nbx_registry_find(const char *name) {
    table *t = get();
    if (!t || !name) return NULL;
    nbx_operator *op = *slot_of(t, name, strlen(name));
    if (op) return op;
    char normal[256];
    size_t length = normal_name(name, normal, sizeof normal);
    return length ? *slot_of(t, normal, length) : NULL;
}

const nbx_operator *nbx_op_find(const char *name) { return nbx_registry_find(name); }

nbx_schema *nbx_operator_parsed(nbx_context *ctx, const nbx_operator *op) {
    nbx_schema *schema = __atomic_load_n(&op->schema, __ATOMIC_ACQUIRE);
    if (schema) return schema;
    schema = nbx_schema_create(ctx, op->text);
    if (!schema) return NULL;
    nbx_schema *other = NULL;
    if (__atomic_compare_exchange_n(&((nbx_operator *)op)->schema, &other, schema, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return schema;
    nbx_schema_destroy(schema);
    return other;
}

nbx_status nbx_registry_add(nbx_context *ctx, const char *schema_text, const nbx_op *op) {
    table *t = get();
    nbx_schema *schema = t ? nbx_schema_create(ctx, schema_text) : NULL;
    nbx_operator *own = schema ? nbx_alloc_zero(sizeof *own) : NULL;
    if (!own) {
        nbx_schema_destroy(schema);
        return nbx_fail_memory(ctx, sizeof *own, "registered operator");
    }
    own->text = schema->text;
    own->name = schema->name;
    own->schema = schema;
    own->op = op;
    pthread_mutex_lock(&lock);
    nbx_operator **slot = slot_of(t, own->name, strlen(own->name));
    const bool room = t->count < SLOTS / 2;
    const bool taken = *slot && (*slot)->op;
    if (room && *slot && !taken) {  // known, without code: the user's code fills it
        (*slot)->op = op;
    } else if (room && !taken) {
        t->sorted[t->count++] = own;
        qsort(t->sorted, t->count, sizeof *t->sorted, by_name);
        __atomic_store_n(slot, own, __ATOMIC_RELEASE);
    }
    const bool used = room && *slot == own;
    pthread_mutex_unlock(&lock);
    if (used || (room && !taken)) {
        if (!used) {
            nbx_schema_destroy(schema);
            nbx_free(own);
        }
        return NBX_OK;
    }
    const nbx_status status = nbx_fail(ctx, NBX_ERROR_ARGUMENT, "operator %s is registered already", own->name);
    nbx_schema_destroy(schema);
    nbx_free(own);
    return status;
}

static nbx_status no_kernel(nbx_op_call *c) { return nbx_call_fail(c, NBX_ERROR_INTERNAL, "the library of the device has no code for it"); }

nbx_op_fn nbx_operator_kernel(const nbx_operator *op, int device_type, int isa) {
    if (!op->op) return NULL;
    if (device_type == NBX_CPU) return op->op->cpu[isa];
    const nbx_backend *backend = nbx_backend_library(device_type);
    if (!backend) return NULL;
    nbx_op_fn kernel = __atomic_load_n(&op->cuda, __ATOMIC_ACQUIRE);
    if (!kernel) {  // asked once: that there is none is remembered, too
        kernel = backend->kernel(op->op->name);
        if (!kernel) kernel = no_kernel;
        __atomic_store_n(&((nbx_operator *)op)->cuda, kernel, __ATOMIC_RELEASE);
    }
    return kernel == no_kernel ? NULL : kernel;
}

bool nbx_op_runs_on_host(const nbx_op *op) {
    if ((op->flags & NBX_OP_READS_BACK) == NBX_OP_READS_BACK) return false;
    return op->cpu[0] || (op->flags & (NBX_OP_ON_HOST | NBX_OP_READS_DATA));
}

static const uncoded *uncoded_of(const nbx_operator *op) {
    for (size_t i = 0; i < sizeof uncodeds / sizeof *uncodeds; i++) {
        const size_t length = strlen(uncodeds[i].name);
        const bool all = uncodeds[i].name[length - 1] == '*';
        if (strncmp(op->name, uncodeds[i].name, all ? length - 1 : length + 1) == 0) return &uncodeds[i];
    }
    return NULL;
}

bool nbx_operator_in_programs(const nbx_operator *op) {
    const uncoded *found = op && !op->op ? uncoded_of(op) : NULL;
    return found && !found->reason;
}

const char *nbx_operator_refusal(const nbx_operator *op) {
    const uncoded *found = op && !op->op ? uncoded_of(op) : NULL;
    return found ? found->reason : NULL;
}

bool nbx_operator_available(const nbx_operator *op, nbx_device_type device) {
    if (!op || !op->op) return nbx_operator_in_programs(op);
    if (device == NBX_CUDA) return nbx_backend_of(NBX_CUDA) != NULL;  // by a kernel there, or on the host
    return nbx_operator_runs(op, device) != NBX_RUNS_NOWHERE;
}

nbx_operator_way nbx_operator_runs(const nbx_operator *op, nbx_device_type device) {
    if (!op || !op->op) return nbx_operator_in_programs(op) ? NBX_RUNS_IN_PROGRAMS : NBX_RUNS_NOWHERE;
    const nbx_op *row = op->op;
    if (device == NBX_CUDA && !nbx_backend_library(NBX_CUDA)) return NBX_RUNS_NOWHERE;
    if (nbx_operator_kernel(op, (int)device, 0)) return NBX_RUNS_KERNEL;
    if (device != NBX_CPU && nbx_op_runs_on_host(row)) return NBX_RUNS_ON_HOST;
    return row->composite ? NBX_RUNS_OTHERS : row->infer && !row->cpu[0] ? NBX_RUNS_NOTHING : NBX_RUNS_NOWHERE;
}

const char *nbx_operator_name(const nbx_operator *op) { return op->name; }
const char *nbx_operator_schema(const nbx_operator *op) { return op->text; }

size_t nbx_operator_count(void) {
    const table *t = get();
    return t ? t->count : 0;
}

const nbx_operator *nbx_operator_at(size_t index) {
    const table *t = get();
    return t && index < t->count ? t->sorted[index] : NULL;
}
