// One case from its arguments to its verdict.
#include "conform.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#pragma weak nbx_generator_destroy  // see conform_args.c

// ----------------------------------------------------------------------------------------------------------- verdicts
static bool set_verdict(test_case *c, verdict v, const char *format, va_list values) {
    if (c->result->verdict != VERDICT_PASSED) return false;
    c->result->verdict = v;
    vsnprintf(c->result->message, sizeof c->result->message, format, values);
    return false;
}

bool case_fail(test_case *c, const char *format, ...) {
    va_list values;
    va_start(values, format);
    set_verdict(c, VERDICT_FAILED, format, values);
    va_end(values);
    return false;
}

bool case_malformed(test_case *c, const char *format, ...) {
    va_list values;
    va_start(values, format);
    set_verdict(c, VERDICT_MALFORMED, format, values);
    va_end(values);
    return false;
}

void case_skip(test_case *c, const char *format, ...) {
    va_list values;
    va_start(values, format);
    set_verdict(c, VERDICT_SKIPPED, format, values);
    va_end(values);
}

void *case_alloc(test_case *c, size_t bytes) {
    void **blocks = realloc(c->blocks, (c->block_count + 1) * sizeof *blocks);
    if (blocks) c->blocks = blocks;
    void *memory = blocks ? calloc(1, bytes ? bytes : 1) : NULL;
    if (!memory) {
        case_fail(c, "the runner has no memory for %zu bytes", bytes);
        return NULL;
    }
    c->blocks[c->block_count++] = memory;
    return memory;
}

void case_free_from(test_case *c, size_t first) {
    while (c->block_count > first) free(c->blocks[--c->block_count]);
}

// -------------------------------------------------------------------------------------------------------------- calls
bool read_arguments(test_case *c, const nbx_json *call, call_arguments *a) {
    const nbx_json *args = nbx_json_get(call, "args"), *keywords = nbx_json_get(call, "kwargs");
    if (args && args->kind != NBX_JSON_ARRAY) return case_malformed(c, "args is no list");
    if (keywords && keywords->kind != NBX_JSON_OBJECT) return case_malformed(c, "kwargs is no object");
    a->arg_count = args ? (int)args->count : 0;
    a->keyword_count = keywords ? (int)keywords->count : 0;
    a->args = case_alloc(c, ((size_t)a->arg_count + 1) * sizeof *a->args);
    a->keywords = case_alloc(c, ((size_t)a->keyword_count + 1) * sizeof *a->keywords);
    if (!a->args || !a->keywords) return false;
    for (int i = 0; i < a->arg_count; i++) {
        if (!arg_value(c, &args->as.items[i], &a->args[i])) return false;
    }
    for (int i = 0; i < a->keyword_count; i++) {
        a->keywords[i].name = keywords->as.members[i].name;
        if (!arg_value(c, &keywords->as.members[i].value, &a->keywords[i].value)) return false;
    }
    return true;
}

static const nbx_operator *find_operator(test_case *c, const nbx_json *call) {
    const char *name = nbx_json_string_or(nbx_json_get(call, "op"), NULL);
    if (!name) {
        case_malformed(c, "the call names no operator");
        return NULL;
    }
    const nbx_operator *op = nbx_op_find(name);
    if (op && nbx_operator_available(op, (nbx_device_type)c->options->device.type)) return op;
    const char *problem = op ? "is known but not available" : "is unknown";
    if (c->options->skip_missing) case_skip(c, "operator %.100s %s", name, problem);
    else case_fail(c, "operator %.100s %s", name, problem);
    return NULL;
}

static bool make_calls_before(test_case *c) {
    const nbx_json *before = nbx_json_get(c->json, "before");
    if (!before) return true;
    if (before->kind != NBX_JSON_ARRAY) return case_malformed(c, "before is no list");
    c->before = case_alloc(c, (before->count + 1) * sizeof *c->before);
    if (!c->before) return false;
    for (uint32_t i = 0; i < before->count; i++) {
        call_arguments a;
        const nbx_operator *op = find_operator(c, &before->as.items[i]);
        if (!op || !read_arguments(c, &before->as.items[i], &a)) return false;
        call_results *r = &c->before[i];
        if (nbx_call_operator(c->ctx, op, a.args, a.arg_count, a.keywords, a.keyword_count, r->values, MAX_RESULTS, &r->count)) {
            return case_fail(c, "call %u before: %s", i, nbx_last_message(c->ctx));
        }
        c->before_count = i + 1;
    }
    return true;
}

static bool remember_subject(test_case *c) {
    if (!check_needs_subject(c) || !c->arg_count || c->args[0].kind != NBX_KIND_TENSOR) return true;
    block *b = case_alloc(c, sizeof *b);
    if (!b || !block_of_tensor(c, c->args[0].as.tensor, b)) return false;
    c->subject = b;
    return true;
}

// An error is right, but not one that says that something is missing or broken here.
static bool judge_error(test_case *c, nbx_status status) {
    if (status == NBX_OK) status = nbx_synchronize(c->ctx);
    if (status == NBX_OK) return case_fail(c, "no error, but PyTorch says: %.300s", nbx_json_string_or(nbx_json_get(c->json, "note"), "it is one"));
    const char *message = nbx_last_message(c->ctx);
    const bool ours = status == NBX_ERROR_INTERNAL || status == NBX_ERROR_UNKNOWN ||
                      (status == NBX_ERROR_UNSUPPORTED && strstr(message, "not implemented"));
    return !ours || case_fail(c, "an error, but this one: %s", message);
}

static bool judge(test_case *c, nbx_status status) {
    if (nbx_json_bool_or(nbx_json_get(c->json, "error"), false)) return judge_error(c, status);
    if (status != NBX_OK) return case_fail(c, "%s: %s", nbx_status_text(status), nbx_last_message(c->ctx));
    if (!check_results(c)) return false;
    measure_ulp(c);
    if (c->options->hash_path) c->result->hash = hash_results(c);
    return true;
}

static void run(test_case *c) {
    call_arguments a;
    const nbx_operator *op = find_operator(c, c->json);
    if (!op || !make_calls_before(c) || !read_arguments(c, c->json, &a)) return;
    c->args = a.args;
    c->arg_count = a.arg_count;
    c->keywords = a.keywords;
    c->keyword_count = a.keyword_count;
    if (c->options->mutate || c->options->fail_allocations) {
        if (c->options->mutate) mutate_case(c, op);
        if (c->options->fail_allocations) fail_allocations(c, op);
        return;
    }
    if (!remember_subject(c)) return;
    judge(c, nbx_call_operator(c->ctx, op, a.args, a.arg_count, a.keywords, a.keyword_count, c->results.values, MAX_RESULTS, &c->results.count));
}

void case_run(const options *o, nbx_context *ctx, const nbx_tensors *arrays, const nbx_json *json, outcome *result) {
    test_case c = {.ctx = ctx, .options = o, .arrays = arrays, .json = json, .result = result};
    const nbx_scope scope = nbx_scope_open(ctx);
    result->verdict = VERDICT_PASSED;
    result->dtype = NBX_DTYPE_NONE;
    result->ulp_ours = result->ulp_recorded = -1;
    result->hash = 0;
    result->message[0] = 0;
    run(&c);
    nbx_scope_close(ctx, scope, NULL);
    nbx_clear_error(ctx);
    for (int i = 0; i < c.generator_count; i++) nbx_generator_destroy(c.generators[i]);
    case_free_from(&c, 0);
    free(c.blocks);
}
