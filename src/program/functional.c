// auto_functionalized(operator, arguments) and its second version: an operator that writes its arguments, as a function. What
// it would write is copied first; its results are followed by the copies as they are afterwards.
#include <stdio.h>
#include <string.h>

#include "program/higher.h"

typedef struct call {
    nbx_run *run;
    const nbx_node *node;
    const nbx_value *args;        // of the node, by node->names
    nbx_value given[NBX_MAX_ARGS];
    nbx_value bases;              // version 2: copies of the tensors whose memory is written
} call;

static const nbx_value *find(const call *c, const char *name) {
    for (int i = 0; i < c->node->arg_count; i++)
        if (strcmp(c->node->names[i], name) == 0) return &c->args[i];
    return NULL;
}

static const nbx_value *find_of(const call *c, const char *prefix, const char *suffix) {
    char name[256];
    snprintf(name, sizeof name, "%s%s", prefix, suffix);
    return find(c, name);
}

static nbx_status malformed(const call *c, const char *what) {
    return nbx_fail(c->run->ctx, NBX_ERROR_FORMAT, "argument %s of %s is missing or malformed", what, c->node->op ? c->node->op->name : "the operator");
}

// ------------------------------------------------------------------------------------------------------------- copies
// Views of a base reach elements by its strides and offset: the copy keeps both.
static const nbx_tensor *copy_of(nbx_context *ctx, const nbx_tensor *t) {
    int64_t reach = t->offset + 1;
    const int64_t one = 1;
    if (t->numel == 0) return NBX_DO(ctx, "aten::clone", T(t));
    for (int d = 0; d < t->rank; d++) reach += (t->shape[d] - 1) * t->stride[d];
    const nbx_tensor *flat = NBX_DO(ctx, "aten::as_strided", T(t), nbx_of_ints(&reach, 1), nbx_of_ints(&one, 1), I(0));
    flat = flat ? NBX_DO(ctx, "aten::clone", T(flat)) : NULL;
    return flat ? NBX_DO(ctx, "aten::as_strided", T(flat), nbx_of_ints(t->shape, t->rank), nbx_of_ints(t->stride, t->rank), I(t->offset)) : NULL;
}

// A tensor, a list of tensors or nothing.
static nbx_status copy_value(nbx_context *ctx, const nbx_value *from, nbx_value *to) {
    *to = *from;
    if (from->kind == NBX_KIND_TENSOR) {
        to->as.tensor = copy_of(ctx, from->as.tensor);
        return to->as.tensor ? NBX_OK : nbx_last_status(ctx);
    }
    if (from->kind != NBX_KIND_TENSORS) return NBX_OK;
    const nbx_tensor **list = nbx_scope_alloc(ctx, ((size_t)from->count + 1) * sizeof *list);
    if (!list) return nbx_last_status(ctx);
    for (int i = 0; i < from->count; i++) {
        list[i] = nbx_is_none(from->as.tensors[i]) ? NBX_NONE : copy_of(ctx, from->as.tensors[i]);
        if (!list[i]) return nbx_last_status(ctx);
    }
    *to = nbx_of_tensors(list, from->count);
    return NBX_OK;
}

// --------------------------------------------------------------------------------------------------------------- views
// Version 2 describes each written argument as a view of a base: PREFIX_base_index, and how to get from there to it.
static nbx_status view_of(const call *c, const char *prefix, const nbx_tensor **view) {
    nbx_context *ctx = c->run->ctx;
    const nbx_value *index = find_of(c, prefix, "_base_index"), *size = find_of(c, prefix, "_size"), *dim = find_of(c, prefix, "_slice_dim");
    *view = NBX_NONE;
    if (!index || index->kind == NBX_KIND_NONE) return index ? NBX_OK : malformed(c, prefix);
    if (index->kind != NBX_KIND_INT || index->as.integer < 0 || index->as.integer >= c->bases.count) return malformed(c, prefix);
    const nbx_tensor *base = c->bases.as.tensors[index->as.integer];
    const nbx_value *more[2] = {find_of(c, prefix, size ? "_stride" : "_slice_start"), find_of(c, prefix, size ? "_storage_offset" : "_slice_end")};
    *view = base;
    if ((size || dim) && (!more[0] || !more[1])) return malformed(c, prefix);
    if (size) *view = NBX_DO(ctx, "aten::as_strided", T(base), *size, *more[0], *more[1]);
    else if (dim) *view = NBX_DO(ctx, "aten::slice.Tensor", T(base), *dim, *more[0], *more[1]);
    return *view ? NBX_OK : nbx_last_status(ctx);
}

static nbx_status views_of(const call *c, const nbx_param *p, nbx_value *to) {
    char prefix[160];
    snprintf(prefix, sizeof prefix, "_%s", p->name);
    const nbx_value *length = p->list ? find_of(c, prefix, "_length") : NULL;
    const nbx_tensor *one;
    if (!p->list) {
        const nbx_status status = view_of(c, prefix, &one);
        *to = status == NBX_OK ? T_OR_NONE(one) : nbx_of_none();
        return status;
    }
    if (!length || length->kind == NBX_KIND_NONE) return *to = nbx_of_none(), length ? NBX_OK : malformed(c, p->name);
    if (length->kind != NBX_KIND_INT || length->as.integer < 0 || length->as.integer > c->node->arg_count) return malformed(c, p->name);
    const int count = (int)length->as.integer;
    const nbx_tensor **list = nbx_scope_alloc(c->run->ctx, ((size_t)count + 1) * sizeof *list);
    nbx_status status = list ? NBX_OK : nbx_last_status(c->run->ctx);
    for (int i = 0; i < count && status == NBX_OK; i++) {
        snprintf(prefix, sizeof prefix, "_%s_%d", p->name, i);
        status = view_of(c, prefix, &list[i]);
    }
    *to = nbx_of_tensors(list, count);
    return status;
}

// ---------------------------------------------------------------------------------------------------------------- call
static nbx_status take_argument(call *c, int i, bool second) {
    const nbx_param *p = &c->node->schema->params[i];
    const nbx_value *v = find(c, p->name);
    if (p->written && second) return views_of(c, p, &c->given[i]);
    if (!v && !p->has_default && !p->optional) return malformed(c, p->name);
    c->given[i] = v ? *v : p->has_default ? p->fallback : nbx_of_none();
    return p->written ? copy_value(c->run->ctx, v ? v : &c->given[i], &c->given[i]) : NBX_OK;
}

typedef struct sink {
    nbx_value *results;
    int at, count;
} sink;

static void put(sink *s, const nbx_value *v) {
    if (v->kind == NBX_KIND_TENSORS) {
        for (int i = 0; i < v->count; i++) {
            const nbx_value one = T_OR_NONE(v->as.tensors[i]);
            put(s, &one);
        }
        return;
    }
    if (s->at < s->count) {
        s->results[s->at] = *v;
        if (v->kind == NBX_KIND_TENSOR) nbx_retain(v->as.tensor);
    }
    s->at++;
}

static nbx_status give_results(const call *c, const nbx_value *made, int made_count, bool second, nbx_value *results) {
    const nbx_schema *schema = c->node->schema;
    sink s = {results, schema->result_count == 0, c->node->output_count};  // nothing stands there as None
    for (int k = 0; k < made_count && k < schema->result_count; k++) put(&s, &made[k]);
    if (second) put(&s, &c->bases);
    for (int i = 0; i < schema->param_count && !second; i++)
        if (schema->params[i].written) put(&s, &c->given[i]);
    if (s.at == s.count) return NBX_OK;
    return nbx_fail(c->run->ctx, NBX_ERROR_FORMAT, "%s gives %d results, the program expects %d", c->node->op->name, s.at, s.count);
}

nbx_status nbx_functional_run(nbx_run *run, const nbx_node *node, const nbx_value *args, bool second, nbx_value *results) {
    call c = {.run = run, .node = node, .args = args};
    nbx_value made[NBX_MAX_RESULTS];
    int count = 0;
    if (!node->schema || node->schema->varargs || node->arg_count == 0) return malformed(&c, "operator");
    const nbx_value *bases = second ? find(&c, "_all_bases") : NULL;
    if (second && (!bases || (bases->kind != NBX_KIND_TENSORS && bases->count))) return malformed(&c, "_all_bases");
    nbx_status status = second ? copy_value(run->ctx, bases, &c.bases) : NBX_OK;
    for (int i = 0; i < node->schema->param_count && status == NBX_OK; i++) status = take_argument(&c, i, second);
    if (status == NBX_OK)
        status = nbx_dispatch(run->ctx, node->op, c.given, node->schema->param_count, NULL, 0, made, NBX_MAX_RESULTS, &count);
    return status == NBX_OK ? give_results(&c, made, count, second, results) : status;
}
