#include "ops/epilogue.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/pool.h"
#include "ops/copy/convert.h"
#include "ops/elementwise/elementwise.h"
#include "ops/record.h"

enum { PIECE_BYTES = 8192 };  // all steps run on a piece before the next one: it stays in the first cache

// ------------------------------------------------------------------------------------------------------------- running
static void fill_number(const ew_plan *p, int k, int64_t count, char *to) {
    const size_t size = nbx_dtype_size(p->run_dtype);
    for (int64_t i = 0; i < count; i++) memcpy(to + (size_t)i * size, p->value[p->number[1 + k]], size);
}

static void run_with_numbers(const ew_plan *p, const uint8_t *operands, int inputs, ew_run *run) {
    _Alignas(64) char numbers[EW_INPUTS][PIECE_BYTES];
    for (int k = 0; k < inputs; k++) {
        if (operands[k] != NBX_EPILOGUE_NUMBER) continue;
        fill_number(p, k, run->count, numbers[k]);
        run->in[k] = numbers[k];
    }
    p->loop(run);
}

// result: where the result so far lies; other: where the operand from elsewhere does.
static void run_step(const nbx_epilogue *e, int s, void *result, const void *other, int64_t count) {
    const ew_plan *p = e->steps[s]->state;
    const uint8_t *operands = e->operands[s];
    const int inputs = p->operands - p->outs;
    bool numbers = false;
    int fault = EW_FAULT_NONE;
    ew_run run = {.out = {result}, .count = count, .dtype = p->run_dtype, .compute = p->compute, .params = &p->params, .fault = &fault};
    for (int k = 0; k < inputs; k++) {
        run.in[k] = operands[k] == NBX_EPILOGUE_RESULT ? result : other;
        numbers |= operands[k] == NBX_EPILOGUE_NUMBER;
    }
    if (numbers) run_with_numbers(p, operands, inputs, &run);
    else p->loop(&run);
}

static const char *other_data(const nbx_epilogue *e, int s) { return e->other[s] < 0 ? NULL : nbx_data(e->steps[s]->args[e->other[s]].as.tensor); }

void nbx_epilogue_run(const nbx_epilogue *e, int64_t first, int64_t count) {
    if (!e || count <= 0) return;
    const nbx_tensor *y = out_get(e->steps[0], 0);
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)y->dtype), piece = PIECE_BYTES / size;
    for (int64_t i = first; i < first + count; i += piece)
        for (int s = 0; s < e->count; s++) {
            const char *other = other_data(e, s);
            run_step(e, s, (char *)nbx_data(y) + i * size, other ? other + i * size : NULL, first + count - i < piece ? first + count - i : piece);
        }
}

void nbx_epilogue_run_tile(const nbx_epilogue *e, float *tile, int64_t count, float *space, void (*gather)(const void *arg, const void *data, float *to),
                           const void *arg) {
    enum { PIECE = PIECE_BYTES / sizeof(float) };
    for (int s = 0; s < e->count; s++) {
        if (e->other[s] >= 0) gather(arg, other_data(e, s), space);
        for (int64_t i = 0; i < count; i += PIECE) run_step(e, s, tile + i, space + i, count - i < PIECE ? count - i : PIECE);
    }
}

// Adds what a step does to the sequence of an addition and a clamping; false: it is something else.
static bool add_plain(const nbx_op_call *step, const void *residual, bool residual_first, nbx_epilogue_plain *plain) {
    const ew_plan *p = step->state;
    const char *name = step->op->name;
    if (p->run_dtype != NBX_FLOAT32 || p->compute != NBX_FLOAT32 || plain->clamps) return false;
    if (!strcmp(name, "aten::add.Tensor") && p->params.f[0] == 1 && p->params.f[1] == 0 && residual && !plain->residual) {
        plain->residual = residual;
        plain->residual_first = residual_first;
        return true;
    }
    if (!strcmp(name, "aten::relu")) plain->low = 0, plain->high = INFINITY;
    else if (!strcmp(name, "aten::hardtanh") || !strcmp(name, "aten::relu6")) plain->low = (float)p->params.f[0], plain->high = (float)p->params.f[1];
    else return false;
    plain->clamps = true;
    return !isnan(plain->low) && !isnan(plain->high);
}

bool nbx_epilogue_is_plain(const nbx_epilogue *e, nbx_epilogue_plain *plain) {
    *plain = (nbx_epilogue_plain){0};
    for (int s = 0; e && s < e->count; s++)
        if (!add_plain(e->steps[s], other_data(e, s), e->operands[s][0] == NBX_EPILOGUE_OTHER, plain)) return false;
    return true;
}

static void run_elements(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    nbx_epilogue_run(arg, begin, end - begin);
}

void nbx_epilogue_run_all(const nbx_epilogue *e, nbx_pool *pool) {
    enum { GRAIN = 8192 };
    if (e) nbx_parallel_for(pool, out_get(e->steps[0], 0)->numel, GRAIN, run_elements, (void *)e);
}

// ------------------------------------------------------------------------------------------------------------- joining
// Do elements of equal number, counted in memory, belong to each other?
static bool same_order(const nbx_tensor *a, const nbx_tensor *b) {
    if (a->dtype != b->dtype || a->numel != b->numel) return false;
    if (a->contiguous && b->contiguous) return true;
    return a->dense && nbx_same_shape(a, b) && memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)a->rank) == 0;
}

static bool same_place(const nbx_tensor *a, const nbx_tensor *b) { return a->storage == b->storage && a->offset == b->offset && same_order(a, b); }

// An elementwise call of one floating dtype whose operands are numbers and tensors in the order of its result.
static bool may_be_step(nbx_op_call *c) {
    if (c->op->infer != ew_infer || c->device.type != NBX_CPU || !c->state || c->list || c->out_count != 1 || c->scratch_bytes) return false;
    if (c->op->flags & (NBX_OP_RANDOM | NBX_OP_EFFECT)) return false;
    const ew_row *row = c->op->data;
    const nbx_tensor *y = out_get(c, 0);
    if (row->outputs > 1 || !y || y->numel < 2 || !(EW_BIT(y->dtype) & EW_FLOATS)) return false;
    for (int k = 0; k < row->inputs; k++) {
        const nbx_tensor *x = arg_tensor(c, row->arg[k]);
        if (x && !same_order(x, y)) return false;
    }
    return true;
}

// Its plan, made as for a run by itself; false: the loop does not work in the memory of the operands.
static bool plan_step(nbx_op_call *c) {
    ew_plan *p = c->state;
    c->plan_only = true;
    const nbx_status status = c->kernel(c);
    c->plan_only = false;
    if (status != NBX_OK || !p->ready) return nbx_clear_error(c->ctx), false;
    bool direct = nbx_dtype_size(p->run_dtype) == nbx_dtype_size((nbx_dtype)out_get(c, 0)->dtype);
    for (int k = 0; k < p->operands && direct; k++)
        direct = p->tile[k] == (uint8_t)p->run_dtype && (p->number[k] >= 0 || p->dtype[k] == p->tile[k]) && (k > 0 || p->by[0] == p->tile[0]);
    return direct;
}

typedef struct joining {
    nbx_context *ctx;
    nbx_recorder *r;
    int *touches;  // [buffer]: commands that read or write it
    int *into;     // [command]: the one that carries it, or itself
} joining;

typedef struct sight {
    const nbx_storage *of;
    bool seen;
} sight;

static void look(void *arg, const nbx_tensor *t) {
    sight *s = arg;
    s->seen |= t && !nbx_is_none(t) && t->storage == s->of;
}

static bool touches(const nbx_op_call *c, const nbx_storage *storage) {
    sight s = {storage, false};
    nbx_recorder_tensors(c, look, &s);
    return s.seen;
}

static bool writes(const nbx_op_call *c, const nbx_storage *storage) {
    sight s = {storage, false};
    for (int i = 0; i < c->arg_count; i++) {
        if (!c->schema->params[i].written) continue;
        if (c->args[i].kind == NBX_KIND_TENSOR) look(&s, c->args[i].as.tensor);
        for (int j = 0; c->args[i].kind == NBX_KIND_TENSORS && j < c->args[i].count; j++) look(&s, c->args[i].as.tensors[j]);
    }
    for (int k = 0; k < c->out_count; k++)
        if (c->out[k].kind == NBX_KIND_TENSOR) look(&s, c->out[k].as.tensor);
    for (int k = 0; k < c->list_count; k++) look(&s, c->list[k]);
    return s.seen;
}

static bool is_planned(const nbx_recorder *r, const nbx_storage *s) {
    return s->plan >= 0 && s->plan < r->buffer_count && r->buffers[s->plan].storage == s;
}

// Is a storage, which a call makes and the step at `at` reads, done with after that?
static bool ends_here(const joining *j, const nbx_storage *s) {
    if (!is_planned(j->r, s)) return false;
    const nbx_recorded_buffer *b = &j->r->buffers[s->plan];
    return !b->exposed && b->last < j->r->command_count && j->touches[s->plan] == 2;
}

// The last command before `at` that touches a storage, if it is near; -1: none.
static int last_touch(const joining *j, const nbx_storage *s, int at) {
    enum { FARTHEST = 64 };
    for (int i = at - 1; i >= 0 && i >= at - FARTHEST; i--)
        if (j->into[i] == i && touches(j->r->commands[i], s)) return i;
    return -1;
}

// May the step at `at` run as early as the producer at `from` does, and write there instead of it?
static bool may_move(const joining *j, int from, int at, const nbx_tensor *x) {
    const nbx_op_call *producer = j->r->commands[from], *step = j->r->commands[at];
    const ew_row *row = step->op->data;
    const nbx_tensor *y = out_get(step, 0);
    const bool in_place = y->storage == x->storage;
    if (in_place ? !same_place(x, y) : !ends_here(j, x->storage) || touches(producer, y->storage)) return false;
    int others = 0;
    for (int k = 0; k < row->inputs; k++) {
        const nbx_tensor *other = arg_tensor(step, row->arg[k]);
        if (!other || other == x) continue;
        if (other->storage != x->storage && ++others > 1) return false;
        if (other->storage == x->storage ? !same_place(other, x) : other->storage == y->storage) return false;
        for (int i = from; i < at && other->storage != x->storage; i++)
            if (j->into[i] == i && writes(j->r->commands[i], other->storage)) return false;
    }
    for (int i = from + 1; i < at && !in_place; i++)
        if (j->into[i] == i && touches(j->r->commands[i], y->storage)) return false;
    return true;
}

static bool may_carry(const nbx_op_call *c) {
    return c->op->carries && c->device.type == NBX_CPU && !c->list && out_get(c, 0) && (!c->epilogue || c->epilogue->count < NBX_EPILOGUE_STEPS);
}

// Would what the producer carries be plain with the step?
static bool stays_plain(const nbx_op_call *producer, const nbx_op_call *step, const nbx_tensor *operand) {
    nbx_epilogue_plain plain = {0};
    const nbx_epilogue *e = producer->epilogue;
    const ew_row *row = step->op->data;
    bool other = false;
    for (int s = 0; e && s < e->count; s++)
        if (!add_plain(e->steps[s], e->other[s] < 0 ? NULL : e, false, &plain)) return false;
    for (int k = 0; k < row->inputs; k++) {
        const nbx_tensor *x = arg_tensor(step, row->arg[k]);
        other |= x && x->storage != operand->storage;
    }
    return add_plain(step, other ? step : NULL, false, &plain);
}

// The producer that the step at `at` may be joined to, the latest of those of its operands; -1: none.
static int find_producer(const joining *j, int at, const nbx_tensor **operand) {
    nbx_op_call *step = j->r->commands[at];
    const ew_row *row = step->op->data;
    int found = -1;
    for (int k = 0; k < row->inputs; k++) {
        const nbx_tensor *x = arg_tensor(step, row->arg[k]);
        const int from = x ? last_touch(j, x->storage, at) : -1;
        if (from <= found || !may_carry(j->r->commands[from]) || !same_place(out_get(j->r->commands[from], 0), x) || !may_move(j, from, at, x)) continue;
        found = from;
        *operand = x;
    }
    return found;
}

static void put(const nbx_tensor **place, nbx_tensor *t) {
    nbx_retain(t);
    nbx_release(*place);
    *place = t;
}

// Where x stood, the step's result stands: x is made there.
static void redirect(nbx_op_call *c, const nbx_tensor *x, nbx_tensor *y) {
    const nbx_storage *storage = x->storage;
    const int64_t offset = x->offset;
    for (int i = 0; i < c->arg_count; i++)
        if (c->args[i].kind == NBX_KIND_TENSOR && c->args[i].as.tensor->storage == storage && c->args[i].as.tensor->offset == offset) put(&c->args[i].as.tensor, y);
    if (out_get(c, 0)->storage == storage) put(&c->out[0].as.tensor, y);
}

static void name_operands(nbx_epilogue *e, nbx_op_call *step, const nbx_tensor *y) {
    const ew_row *row = step->op->data;
    const int s = e->count++;
    e->steps[s] = step;
    e->other[s] = -1;
    for (int k = 0; k < row->inputs; k++) {
        const nbx_tensor *x = arg_tensor(step, row->arg[k]);
        e->operands[s][k] = !x ? NBX_EPILOGUE_NUMBER : x->storage == y->storage ? NBX_EPILOGUE_RESULT : NBX_EPILOGUE_OTHER;
        if (e->operands[s][k] == NBX_EPILOGUE_OTHER) e->other[s] = (int8_t)row->arg[k];
    }
}

static bool join(joining *j, int from, int at, const nbx_tensor *operand) {
    nbx_op_call *producer = j->r->commands[from], *step = j->r->commands[at];
    nbx_tensor *y = out_get(step, 0), *made = out_get(producer, 0), *instead = NULL;
    const nbx_tensor *x = nbx_retain(operand);
    if (!producer->epilogue) producer->epilogue = nbx_alloc_zero(sizeof *producer->epilogue);
    if (producer->epilogue && made->storage != y->storage)
        instead = nbx_tensor_new(j->ctx, (nbx_dtype)made->dtype, made->rank, made->shape, made->stride, y->offset, y->storage);
    const bool good = producer->epilogue && (instead || made->storage == y->storage);
    if (good && instead) {
        j->r->buffers[x->storage->plan].unused = true;
        for (int s = 0; s < producer->epilogue->count; s++) redirect(producer->epilogue->steps[s], x, y);
        put(&producer->out[0].as.tensor, instead);
        redirect(step, x, y);
    }
    if (good) {
        name_operands(producer->epilogue, step, y);
        j->into[at] = from;
        if (!instead && is_planned(j->r, y->storage)) j->touches[y->storage->plan]--;  // the two are one command now
    }
    nbx_release(instead);
    nbx_release(x);
    return good || (nbx_fail_memory(j->ctx, sizeof *producer->epilogue, "an epilogue"), false);
}

// ------------------------------------------------------------------------------------------------------- the whole list
typedef struct counter {
    joining *j;
    int *counted_by;  // [buffer]: number of the command that counted it last, from 1 on
    int command;
} counter;

static void count_touch(void *arg, const nbx_tensor *t) {
    const counter *c = arg;
    if (!t || nbx_is_none(t) || !t->storage || !is_planned(c->j->r, t->storage)) return;
    int *by = &c->counted_by[t->storage->plan];
    if (*by == c->command + 1) return;
    *by = c->command + 1;
    c->j->touches[t->storage->plan]++;
}

typedef struct stretch {
    nbx_recorder *r;
    int command;
} stretch;

static void note_use(void *arg, const nbx_tensor *t) {
    const stretch *s = arg;
    if (!t || nbx_is_none(t) || !t->storage || !is_planned(s->r, t->storage)) return;
    nbx_recorded_buffer *b = &s->r->buffers[t->storage->plan];
    if (s->command < b->first) b->first = s->command;
    if (s->command > b->last) b->last = s->command;
}

// Takes the joined commands out of the list; commands get new numbers, and buffers the lifetimes that follow.
static void close_gaps(joining *j) {
    nbx_recorder *r = j->r;
    const int before = r->command_count;
    int count = 0;
    for (int i = 0; i < before; i++) {  // a command is joined to an earlier one, whose new number is known
        if (j->into[i] != i) {
            j->into[i] = j->into[j->into[i]];
            continue;
        }
        r->commands[count] = r->commands[i];
        r->scratch[count] = r->scratch[i];
        j->into[i] = count++;
    }
    r->command_count = count;
    for (int i = 0; i < r->buffer_count; i++) {
        nbx_recorded_buffer *b = &r->buffers[i];
        b->first = b->first < before ? j->into[b->first] : count;
        b->last = b->last < before ? b->first : count;
    }
    for (int i = 0; i < count; i++) {
        stretch s = {r, i};
        nbx_recorder_tensors(r->commands[i], note_use, &s);
        if (r->scratch[i] >= 0) r->buffers[r->scratch[i]].first = r->buffers[r->scratch[i]].last = i;
    }
}

static void count_left(const joining *j, int *before) {
    int left = 0;
    for (int i = 0; i < j->r->command_count; i++) {
        before[i] = left;
        left += j->into[i] == i;
    }
    before[j->r->command_count] = left;
}

nbx_status nbx_recorder_join(nbx_context *ctx, nbx_recorder *r, int *before) {
    const size_t bytes = sizeof(int) * ((size_t)r->command_count + 2 * (size_t)r->buffer_count + 1);
    int *memory = nbx_alloc_zero(bytes), joined = 0;
    if (!memory) return nbx_fail_memory(ctx, bytes, "a plan");
    joining j = {ctx, r, memory + r->command_count, memory};
    bool good = true;
    for (int i = 0; i < r->command_count; i++) {
        counter c = {&j, j.touches + r->buffer_count, i};
        nbx_recorder_tensors(r->commands[i], count_touch, &c);
        j.into[i] = i;
    }
    for (int i = 0; i < r->command_count && good; i++) {
        const nbx_tensor *operand = NULL;
        const int from = may_be_step(r->commands[i]) ? find_producer(&j, i, &operand) : -1;
        if (from < 0 || !plan_step(r->commands[i]) || !r->commands[from]->op->carries(r->commands[from], stays_plain(r->commands[from], r->commands[i], operand))) continue;
        good = join(&j, from, i, operand);
        joined++;
    }
    if (before) count_left(&j, before);
    if (joined) close_gaps(&j);
    nbx_free(memory);
    return good ? NBX_OK : ctx->status;
}
