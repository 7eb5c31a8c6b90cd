// The machine that runs a pickle's opcodes: a stack, a stack of marks and a memo. The functions it imitates are in
// pickle_globals.c.
#include "program/pickle.h"

#include <string.h>

#include "core/memory.h"
#include "program/pickle_globals.h"

enum {
    OP_MARK = '(', OP_STOP = '.', OP_POP = '0', OP_BININT = 'J', OP_BININT1 = 'K', OP_BININT2 = 'M', OP_NONE = 'N',
    OP_BINPERSID = 'Q', OP_REDUCE = 'R', OP_BINUNICODE = 'X', OP_APPEND = 'a', OP_BUILD = 'b', OP_GLOBAL = 'c',
    OP_APPENDS = 'e', OP_BINGET = 'h', OP_LONG_BINGET = 'j', OP_BINPUT = 'q', OP_LONG_BINPUT = 'r', OP_SETITEM = 's',
    OP_TUPLE = 't', OP_SETITEMS = 'u', OP_EMPTY_DICT = '}', OP_EMPTY_LIST = ']', OP_EMPTY_TUPLE = ')', OP_BINFLOAT = 'G',
    OP_SHORT_BINBYTES = 'C', OP_BINBYTES = 'B',
    OP_PROTO = 0x80, OP_TUPLE1 = 0x85, OP_TUPLE2, OP_TUPLE3, OP_NEWTRUE, OP_NEWFALSE, OP_LONG1,
    OP_SHORT_BINUNICODE = 0x8C, OP_STACK_GLOBAL = 0x93, OP_MEMOIZE = 0x94, OP_FRAME = 0x95,
};

static bool fail(nbx_unpickler *u, const char *what) {
    nbx_fail(u->ctx, NBX_ERROR_FORMAT, "%s: pickle byte %zu: %s", u->label, (size_t)(u->at - u->begin), what);
    return false;
}

static bool fail_memory(nbx_unpickler *u) {
    nbx_fail_memory(u->ctx, u->stack_capacity * sizeof *u->stack * 2, "a pickle");
    return false;
}

// ------------------------------------------------------------------------------------------------------- stack, marks
static bool push(nbx_unpickler *u, nbx_pickled *v) {
    if (!v) return false;
    if (u->count == u->stack_capacity) {
        const size_t capacity = u->stack_capacity ? u->stack_capacity * 2 : 64;
        nbx_pickled **stack = nbx_realloc(u->stack, capacity * sizeof *stack);
        if (!stack) return fail_memory(u);
        u->stack = stack;
        u->stack_capacity = capacity;
    }
    u->stack[u->count++] = v;
    return true;
}

static size_t bottom(const nbx_unpickler *u) { return u->mark_count ? u->marks[u->mark_count - 1] : 0; }

static nbx_pickled *pop(nbx_unpickler *u) {
    if (u->count <= bottom(u)) return fail(u, "the stack is empty"), NULL;
    return u->stack[--u->count];
}

static nbx_pickled *top(nbx_unpickler *u) {
    if (u->count <= bottom(u)) return fail(u, "the stack is empty"), NULL;
    return u->stack[u->count - 1];
}

static bool push_mark(nbx_unpickler *u) {
    if (u->mark_count == u->mark_capacity) {
        const size_t capacity = u->mark_capacity ? u->mark_capacity * 2 : 32;
        size_t *marks = nbx_realloc(u->marks, capacity * sizeof *marks);
        if (!marks) return fail_memory(u);
        u->marks = marks;
        u->mark_capacity = capacity;
    }
    u->marks[u->mark_count++] = u->count;
    return true;
}

// Takes what lies above the last mark off the stack; it stays readable at *items until the next push.
static bool pop_mark(nbx_unpickler *u, nbx_pickled ***items, size_t *count) {
    if (!u->mark_count) return fail(u, "a mark is missing");
    const size_t mark = u->marks[--u->mark_count];
    *count = u->count - mark;
    *items = u->stack + mark;
    u->count = mark;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------- memo
static bool memo_put(nbx_unpickler *u, uint64_t index) {
    nbx_pickled *v = top(u);
    if (!v) return false;
    if (index > (uint64_t)(u->end - u->begin)) return fail(u, "a memo index is absurd");  // each takes two bytes to write
    if (index >= u->memo_capacity) {
        size_t capacity = u->memo_capacity ? u->memo_capacity : 64;
        while (capacity <= index) capacity *= 2;
        nbx_pickled **memo = nbx_realloc(u->memo, capacity * sizeof *memo);
        if (!memo) return fail_memory(u);
        memset(memo + u->memo_capacity, 0, (capacity - u->memo_capacity) * sizeof *memo);
        u->memo = memo;
        u->memo_capacity = capacity;
    }
    if (!u->memo[index]) u->memo_count++;
    u->memo[index] = v;
    return true;
}

static bool memo_get(nbx_unpickler *u, uint64_t index) {
    if (index >= u->memo_capacity || !u->memo[index]) return fail(u, "a memo entry is read before it is written");
    return push(u, u->memo[index]);
}

// -------------------------------------------------------------------------------------------------------------- values
nbx_pickled *nbx_pickle_new(nbx_unpickler *u, nbx_pickle_kind kind) {
    nbx_pickled *v = nbx_arena_alloc(u->ctx, u->arena, sizeof *v);
    if (v) v->kind = (uint32_t)kind;
    return v;
}

static nbx_pickled *new_int(nbx_unpickler *u, int64_t integer) {
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_INT);
    if (v) v->as.integer = integer;
    return v;
}

static nbx_pickled *new_bool(nbx_unpickler *u, bool boolean) {
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_BOOL);
    if (v) v->as.boolean = boolean;
    return v;
}

static nbx_pickled *new_tuple(nbx_unpickler *u, nbx_pickled **items, size_t count) {
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_TUPLE);
    if (!v || !count) return v;
    v->as.items = nbx_arena_array(u->ctx, u->arena, count, sizeof *items);
    if (!v->as.items) return NULL;
    memcpy(v->as.items, items, count * sizeof *items);
    v->count = v->capacity = (uint32_t)count;
    return v;
}

static bool extend(nbx_unpickler *u, nbx_pickled *container, nbx_pickled **items, size_t count) {
    if (count > UINT32_MAX / 4 || container->count > UINT32_MAX / 4) return fail(u, "a container is too long");
    const uint32_t wanted = container->count + (uint32_t)count;
    if (wanted > container->capacity) {
        const uint32_t capacity = wanted < 8 ? 8 : wanted * 2;
        nbx_pickled **room = nbx_arena_array(u->ctx, u->arena, capacity, sizeof *room);
        if (!room) return false;
        if (container->count) memcpy(room, container->as.items, container->count * sizeof *room);
        container->as.items = room;
        container->capacity = capacity;
    }
    if (count) memcpy(container->as.items + container->count, items, count * sizeof *items);
    container->count = wanted;
    return true;
}

static bool append(nbx_unpickler *u, nbx_pickled **items, size_t count) {
    nbx_pickled *list = top(u);
    if (!list) return false;
    if (list->kind != NBX_PICKLE_LIST) return fail(u, "something is appended to what is no list");
    return extend(u, list, items, count);
}

static bool set_items(nbx_unpickler *u, nbx_pickled **items, size_t count) {
    nbx_pickled *dict = top(u);
    if (!dict) return false;
    if (dict->kind != NBX_PICKLE_DICT || count % 2) return fail(u, "members are set in what is no dict");
    return extend(u, dict, items, count);
}

// --------------------------------------------------------------------------------------------------------------- bytes
static bool need(nbx_unpickler *u, uint64_t bytes) {
    return (uint64_t)(u->end - u->at) >= bytes || fail(u, "it is cut off");
}

static uint64_t take_little(nbx_unpickler *u, int bytes) {  // need() was asked
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)u->at[i] << 8 * i;
    u->at += bytes;
    return x;
}

static bool take_text(nbx_unpickler *u, int length_bytes) {
    if (!need(u, (uint64_t)length_bytes)) return false;
    const uint64_t length = take_little(u, length_bytes);
    if (!need(u, length)) return false;
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_TEXT);
    if (!v) return false;
    v->as.text = (const char *)u->at;
    v->count = (uint32_t)length;
    u->at += length;
    return push(u, v);
}

static bool take_long(nbx_unpickler *u) {
    if (!need(u, 1)) return false;
    const int length = (int)take_little(u, 1);
    if (!need(u, (uint64_t)length)) return false;
    if (length > 8) return fail(u, "an integer of more than 64 bits");
    uint64_t x = take_little(u, length);
    if (length > 0 && length < 8 && x >> (8 * length - 1)) x |= UINT64_MAX << 8 * length;
    return push(u, new_int(u, (int64_t)x));
}

static bool take_float(nbx_unpickler *u) {
    if (!need(u, 8)) return false;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits = bits << 8 | u->at[i];
    u->at += 8;
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_FLOAT);
    if (v) memcpy(&v->as.real, &bits, 8);
    return push(u, v);
}

static bool take_line(nbx_unpickler *u, nbx_pickled **line) {
    const uint8_t *end = memchr(u->at, '\n', (size_t)(u->end - u->at));
    if (!end) return fail(u, "a name does not end");
    *line = nbx_pickle_new(u, NBX_PICKLE_TEXT);
    if (!*line) return false;
    (*line)->as.text = (const char *)u->at;
    (*line)->count = (uint32_t)(end - u->at);
    u->at = end + 1;
    return true;
}

static bool push_global(nbx_unpickler *u, nbx_pickled *module, nbx_pickled *name) {
    if (!module || !name) return false;
    if (module->kind != NBX_PICKLE_TEXT || name->kind != NBX_PICKLE_TEXT) return fail(u, "a global without names");
    nbx_pickled *items[2] = {module, name};
    nbx_pickled *v = new_tuple(u, items, 2);
    if (v) v->kind = NBX_PICKLE_GLOBAL;
    return push(u, v);
}

// ------------------------------------------------------------------------------------------------------------- opcodes
static bool run_tuple(nbx_unpickler *u, size_t count) {
    if (u->count - bottom(u) < count) return fail(u, "the stack is empty");
    nbx_pickled *v = new_tuple(u, u->stack + u->count - count, count);
    u->count -= count;
    return push(u, v);
}

static bool run_reduce(nbx_unpickler *u) {
    nbx_pickled *args = pop(u);
    nbx_pickled *function = args ? pop(u) : NULL;
    if (!function) return false;
    if (args->kind != NBX_PICKLE_TUPLE || function->kind != NBX_PICKLE_GLOBAL) return fail(u, "a call of what is no function");
    return push(u, nbx_pickle_call(u, function, args));
}

// State of an object. The state dicts of 2.3 and 2.4 carry one, which says nothing about the tensors.
static bool run_build(nbx_unpickler *u) {
    nbx_pickled *state = pop(u), *object = state ? top(u) : NULL;
    if (!object) return false;
    return object->kind == NBX_PICKLE_DICT || object->kind == NBX_PICKLE_TENSOR || fail(u, "state for what takes none");
}

static bool run_marked(nbx_unpickler *u, int op) {
    nbx_pickled **items;
    size_t count;
    if (!pop_mark(u, &items, &count)) return false;
    if (op == OP_TUPLE) return push(u, new_tuple(u, items, count));
    return op == OP_APPENDS ? append(u, items, count) : set_items(u, items, count);
}

static bool run_numbered(nbx_unpickler *u, int op) {
    const int bytes = op == OP_BINPUT || op == OP_BINGET || op == OP_BININT1 ? 1 : op == OP_BININT2 ? 2 : 4;
    if (!need(u, (uint64_t)bytes)) return false;
    const uint64_t x = take_little(u, bytes);
    if (op == OP_BINPUT || op == OP_LONG_BINPUT) return memo_put(u, x);
    if (op == OP_BINGET || op == OP_LONG_BINGET) return memo_get(u, x);
    return push(u, new_int(u, op == OP_BININT ? (int64_t)(int32_t)(uint32_t)x : (int64_t)x));
}

static bool run_global(nbx_unpickler *u, int op) {
    nbx_pickled *module = NULL, *name = NULL;
    if (op == OP_GLOBAL) return take_line(u, &module) && take_line(u, &name) && push_global(u, module, name);
    name = pop(u);
    module = name ? pop(u) : NULL;
    return push_global(u, module, name);
}

static bool run_pair(nbx_unpickler *u, int op) {
    nbx_pickled *items[2];
    items[1] = pop(u);
    if (!items[1]) return false;
    if (op == OP_APPEND) return append(u, items + 1, 1);
    items[0] = pop(u);
    return items[0] && set_items(u, items, 2);
}

static bool run(nbx_unpickler *u, int op) {
    switch (op) {
    case OP_PROTO:
        if (!need(u, 1)) return false;
        return take_little(u, 1) <= 5 || fail(u, "an unknown protocol");
    case OP_FRAME:
        if (!need(u, 8)) return false;
        u->at += 8;
        return true;
    case OP_MARK: return push_mark(u);
    case OP_POP: return pop(u) != NULL;
    case OP_NONE: return push(u, nbx_pickle_new(u, NBX_PICKLE_NONE));
    case OP_NEWTRUE: case OP_NEWFALSE: return push(u, new_bool(u, op == OP_NEWTRUE));
    case OP_BININT: case OP_BININT1: case OP_BININT2:
    case OP_BINPUT: case OP_LONG_BINPUT: case OP_BINGET: case OP_LONG_BINGET: return run_numbered(u, op);
    case OP_MEMOIZE: return memo_put(u, u->memo_count);
    case OP_LONG1: return take_long(u);
    case OP_BINFLOAT: return take_float(u);
    case OP_SHORT_BINUNICODE: case OP_SHORT_BINBYTES: return take_text(u, 1);
    case OP_BINUNICODE: case OP_BINBYTES: return take_text(u, 4);
    case OP_EMPTY_LIST: return push(u, nbx_pickle_new(u, NBX_PICKLE_LIST));
    case OP_EMPTY_DICT: return push(u, nbx_pickle_new(u, NBX_PICKLE_DICT));
    case OP_EMPTY_TUPLE: case OP_TUPLE1: case OP_TUPLE2: case OP_TUPLE3:
        return run_tuple(u, op == OP_EMPTY_TUPLE ? 0 : (size_t)(op - OP_TUPLE1 + 1));
    case OP_TUPLE: case OP_APPENDS: case OP_SETITEMS: return run_marked(u, op);
    case OP_APPEND: case OP_SETITEM: return run_pair(u, op);
    case OP_GLOBAL: case OP_STACK_GLOBAL: return run_global(u, op);
    case OP_REDUCE: return run_reduce(u);
    case OP_BUILD: return run_build(u);
    case OP_BINPERSID: {
        nbx_pickled *id = pop(u);
        return id && push(u, nbx_pickle_storage(u, id));
    }
    default: break;
    }
    u->at--;
    nbx_fail(u->ctx, NBX_ERROR_FORMAT, "%s: pickle byte %zu: opcode 0x%02x is not in the safe subset", u->label,
             (size_t)(u->at - u->begin), (unsigned)op);
    return false;
}

const nbx_pickled *nbx_pickle_read(nbx_context *ctx, nbx_arena *arena, const char *label, const void *data, size_t size) {
    nbx_unpickler u = {.ctx = ctx, .arena = arena, .label = label, .begin = data, .at = data};
    u.end = u.begin + size;
    bool good = true;
    const nbx_pickled *result = NULL;
    if (size > UINT32_MAX) good = fail(&u, "it is longer than 4 GiB");
    while (good) {
        if (u.at == u.end) {
            good = fail(&u, "it ends without a result");
        } else if (*u.at == OP_STOP) {
            result = pop(&u);
            break;
        } else {
            const int op = *u.at++;
            good = run(&u, op);
        }
    }
    nbx_free(u.stack);
    nbx_free(u.marks);
    nbx_free(u.memo);
    return result;
}
