// Symbolic sizes, read and written as people do.
#include "program/expr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define S "Symbol('s7', positive=True, integer=True)"

static void sizes_are_written_as_people_do(void **state) {
    (void)state;
    static const struct { const char *expr, *text; } cases[] = {
        {S, "s7"},
        {"Integer(3)", "3"},
        {"Add(Mul(Integer(2), " S "), Integer(1))", "2*s7 + 1"},
        {"Add(Integer(-1), " S ")", "s7 - 1"},
        {"Mul(" S ", Add(Integer(1), " S "))", "s7*(s7 + 1)"},
        {"FloorDiv(Mul(" S ", Integer(3)), Integer(2))", "s7*3//2"},
        {"Mul(" S ", FloorDiv(Integer(3), Integer(2)))", "s7*(3//2)"},
        {"FloorDiv(" S ", Mul(Integer(3), " S "))", "s7//(3*s7)"},
        {"Pow(Add(" S ", Integer(1)), Integer(2))", "(s7 + 1)**2"},
        {"Max(Integer(7), PythonMod(" S ", Integer(4)))", "max(7, s7 % 4)"},
        {"s7//2 - (s7 - 1)", "s7//2 - (s7 - 1)"},
        {"Where(Eq(" S ", Integer(1)), Integer(2), Integer(3))", NULL},
    };
    nbx_context *ctx = nbx_context_create(NULL);
    nbx_arena arena = {0};
    nbx_name_map symbols = {0};
    const char *const names[] = {"s7"};
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const nbx_expr *e = nbx_expr_parse(ctx, &arena, cases[i].expr, strlen(cases[i].expr), &symbols);
        assert_non_null(e);
        assert_int_equal(nbx_expr_text(e, names, text, sizeof text), cases[i].text != NULL);
        if (cases[i].text) assert_string_equal(text, cases[i].text);
        if (cases[i].text) assert_false(nbx_expr_text(e, names, text, strlen(cases[i].text)));
    }
    nbx_arena_free(&arena);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_written_as_people_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
