// The table: every schema parses, every row of ops.def has one, names are found in all their spellings.
#include "ops/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NBX_OPS(file) extern const nbx_op nbx_ops_##file[];
#include "ops/ops.def"
#undef NBX_OPS

static const nbx_op *const rows[] = {
#define NBX_OPS(file) nbx_ops_##file,
#include "ops/ops.def"
#undef NBX_OPS
    NULL,
};

static void every_schema_parses(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    for (size_t i = 0; i < nbx_operator_count(); i++) {
        const nbx_schema *s = nbx_operator_parsed(ctx, nbx_operator_at(i));
        if (!s) print_error("%s\n", nbx_last_message(ctx));
        assert_non_null(s);
        for (int p = 0; p < s->param_count; p++) assert_true(s->params[p].type != NBX_TYPE_OTHER && s->params[p].name);
    }
    nbx_context_destroy(ctx);
}

static void every_row_has_a_schema(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; rows[i]; i++)
        for (const nbx_op *row = rows[i]; row->name; row++) {
            const nbx_operator *op = nbx_registry_find(row->name);
            assert_true(row->composite || row->infer);
            if (op && op->op == row) continue;
            print_error("%s: %s\n", row->name, op ? "another row has the same name" : "no schema");
            wrong++;
        }
    assert_int_equal(wrong, 0);
}

static void every_derived_form_has_its_base(void **state) {
    (void)state;
    for (size_t i = 0; i < nbx_operator_count(); i++) {
        const nbx_operator *op = nbx_operator_at(i);
        if (op->form != NBX_FORM_FUNCTIONAL) assert_non_null(op->base);
    }
}

static void names_are_found_in_all_spellings(void **state) {
    (void)state;
    static const char *const spellings[] = {"aten::add.Tensor", "add.Tensor", "aten.add.Tensor", "torch.ops.aten.add.Tensor"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const nbx_operator *op = nbx_op_find(spellings[i]);
        assert_non_null(op);
        assert_string_equal(nbx_operator_name(op), "aten::add.Tensor");
    }
    assert_string_equal(nbx_operator_name(nbx_op_find("torch.ops.aten.relu.default")), "aten::relu");
    assert_string_equal(nbx_operator_name(nbx_op_find("torch.ops.torchvision.nms.default")), "torchvision::nms");
    assert_null(nbx_op_find("aten::no_such_operator"));
    assert_null(nbx_op_find(""));
    assert_null(nbx_op_find(NULL));
}

static void calls_are_refused_with_their_reason(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    nbx_value result;
    assert_int_equal(nbx_call(ctx, "aten::nothing", NULL, 0, NULL, 0, &result, 1, NULL), NBX_ERROR_UNKNOWN);
    assert_non_null(strstr(nbx_last_message(ctx), "aten::nothing"));
    nbx_clear_error(ctx);
    assert_int_equal(nbx_call(ctx, "higher_order::cond", NULL, 0, NULL, 0, &result, 1, NULL), NBX_ERROR_UNSUPPORTED);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schema_parses),
        cmocka_unit_test(every_row_has_a_schema),
        cmocka_unit_test(every_derived_form_has_its_base),
        cmocka_unit_test(names_are_found_in_all_spellings),
        cmocka_unit_test(calls_are_refused_with_their_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
