// Shows results so that a person sees something: numbers of short tensors, pictures as shades, the best classes of scores.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MOST_NUMBERS = 64, MOST_ROWS = 20, MOST_COLUMNS = 12, LARGEST_PICTURE = 96, MOST_PICTURES = 4, BEST = 3 };

static double *read_doubles(nbx_context *ctx, const nbx_tensor *t) {
    const nbx_value args[2] = {nbx_of_tensor(t), nbx_of_dtype(NBX_FLOAT64)};
    nbx_value wide;
    double *elements = malloc(((size_t)nbx_tensor_numel(t) + 1) * sizeof *elements);
    if (elements && nbx_call(ctx, "aten::to.dtype", args, 2, NULL, 0, &wide, 1, NULL) == NBX_OK &&
        nbx_tensor_read(ctx, wide.as.tensor, elements) == NBX_OK)
        return elements;
    nbx_clear_error(ctx);
    free(elements);
    return NULL;
}

static void print_facts(const nbx_tensor *t) {
    printf("%s[", nbx_dtype_name(nbx_tensor_dtype(t)));
    for (int i = 0; i < nbx_tensor_rank(t); i++) printf("%s%lld", i ? ", " : "", (long long)nbx_tensor_shape(t)[i]);
    printf("]");
}

static void print_element(nbx_dtype dtype, double x) {
    if (dtype == NBX_BOOL) printf("%s", x != 0 ? "True" : "False");
    else if (x == floor(x) && fabs(x) < 1e15 && (dtype < NBX_FLOAT16 || dtype == NBX_UINT16 || dtype == NBX_UINT32 || dtype == NBX_UINT64)) printf("%.0f", x);
    else printf("%.5g", x);
}

static void print_row(nbx_dtype dtype, const double *x, int64_t count, int64_t most) {
    for (int64_t i = 0; i < count && i < most; i++) {
        printf("%s", i ? "  " : "");
        print_element(dtype, x[i]);
    }
    printf("%s\n", count > most ? "  ..." : "");
}

// Dark to bright, two characters a pixel, since characters are twice as high as wide.
static void print_picture(const double *x, int64_t height, int64_t width) {
    static const char shades[] = " .:-=+*#%@";
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < height * width; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    for (int64_t row = 0; row < height; row++) {
        printf("    ");
        for (int64_t column = 0; column < width; column++) {
            const double v = high > low ? (x[row * width + column] - low) / (high - low) : 0;
            const int shade = isfinite(v) ? (int)(v * 9.999) : 0;
            printf("%c%c", shades[shade], shades[shade]);
        }
        printf("\n");
    }
}

static bool is_picture(const nbx_tensor *t) {
    const int rank = nbx_tensor_rank(t);
    if (rank < 2 || rank > 4) return false;
    const int64_t *shape = nbx_tensor_shape(t), height = shape[rank - 2], width = shape[rank - 1];
    if (height < 8 || width < 8 || height > LARGEST_PICTURE || width > LARGEST_PICTURE) return false;
    return rank == 2 ? width > MOST_COLUMNS && height > MOST_COLUMNS : shape[rank - 3] == 1;
}

static void print_pictures(const nbx_tensor *t, const double *x) {
    const int rank = nbx_tensor_rank(t);
    const int64_t height = nbx_tensor_shape(t)[rank - 2], width = nbx_tensor_shape(t)[rank - 1];
    const int64_t count = nbx_tensor_numel(t) / (height * width);
    for (int64_t i = 0; i < count && i < MOST_PICTURES; i++) {
        if (i) printf("\n");
        print_picture(x + i * height * width, height, width);
    }
    if (count > MOST_PICTURES) printf("    ... and %lld more\n", (long long)(count - MOST_PICTURES));
}

// Rows of float scores: the best class of each.
static void print_scores(const double *x, int64_t rows, int64_t classes) {
    for (int64_t row = 0; row < rows && row < MOST_ROWS; row++) {
        const double *scores = x + row * classes;
        int64_t best[BEST];
        int found = 0;
        for (; found < BEST && found < classes; found++) {
            best[found] = -1;
            for (int64_t i = 0; i < classes; i++) {
                bool taken = false;
                for (int k = 0; k < found; k++) taken |= best[k] == i;
                if (!taken && (best[found] < 0 || scores[i] > scores[best[found]])) best[found] = i;
            }
        }
        printf("    row %lld: best is %lld (%.4g)", (long long)row, (long long)best[0], scores[best[0]]);
        for (int k = 1; k < found; k++) printf(", %s%lld (%.4g)", k == 1 ? "then " : "", (long long)best[k], scores[best[k]]);
        printf("\n");
    }
    if (rows > MOST_ROWS) printf("    ... and %lld more rows\n", (long long)(rows - MOST_ROWS));
}

static void print_elements(const nbx_tensor *t, const double *x) {
    const int rank = nbx_tensor_rank(t);
    const nbx_dtype dtype = nbx_tensor_dtype(t);
    const int64_t count = nbx_tensor_numel(t), columns = rank ? nbx_tensor_shape(t)[rank - 1] : 1;
    const bool is_float = dtype == NBX_FLOAT16 || dtype == NBX_FLOAT32 || dtype == NBX_FLOAT64 || dtype == NBX_BFLOAT16;
    if (is_picture(t)) {
        print_pictures(t, x);
    } else if (rank == 2 && is_float && columns >= 5 && columns <= 100000) {
        print_scores(x, count / columns, columns);
    } else if (rank <= 1) {
        printf("    ");
        print_row(dtype, x, count, MOST_NUMBERS);
    } else {
        const int64_t rows = count / (columns ? columns : 1);
        for (int64_t row = 0; row < rows && row < MOST_ROWS; row++) {
            printf("    ");
            print_row(dtype, x + row * columns, columns, MOST_COLUMNS);
        }
        if (rows > MOST_ROWS) printf("    ... and %lld more rows\n", (long long)(rows - MOST_ROWS));
    }
}

// x: pairs of real and imaginary parts.
static void print_complex(const nbx_tensor *t, const double *x) {
    const int rank = nbx_tensor_rank(t);
    const int64_t count = nbx_tensor_numel(t), columns = rank ? nbx_tensor_shape(t)[rank - 1] : 1, rows = count / columns;
    const int64_t most = rank <= 1 ? MOST_NUMBERS : MOST_COLUMNS;
    for (int64_t row = 0; row < rows && row < MOST_ROWS; row++) {
        const double *at = x + 2 * row * columns;
        printf("    ");
        for (int64_t i = 0; i < columns && i < most; i++) printf("%s%.5g%+.5gj", i ? "  " : "", at[2 * i], at[2 * i + 1]);
        printf("%s\n", columns > most ? "  ..." : "");
    }
    if (rows > MOST_ROWS) printf("    ... and %lld more rows\n", (long long)(rows - MOST_ROWS));
}

static void show_complex(nbx_context *ctx, const nbx_tensor *t) {
    const nbx_value args[1] = {nbx_of_tensor(t)};
    nbx_value resolved, parts;
    double *x = NULL;
    if (nbx_call(ctx, "aten::resolve_conj", args, 1, NULL, 0, &resolved, 1, NULL) == NBX_OK &&
        nbx_call(ctx, "aten::view_as_real", &resolved, 1, NULL, 0, &parts, 1, NULL) == NBX_OK)
        x = read_doubles(ctx, parts.as.tensor);
    nbx_clear_error(ctx);
    if (x) print_complex(t, x);
    free(x);
}

static void show_tensor(nbx_context *ctx, const nbx_tensor *t) {
    print_facts(t);
    printf("\n");
    const nbx_dtype dtype = nbx_tensor_dtype(t);
    if (nbx_tensor_numel(t) == 0 || nbx_tensor_numel(t) > 10000000) return;
    if (dtype == NBX_COMPLEX64 || dtype == NBX_COMPLEX128) {
        show_complex(ctx, t);
        return;
    }
    double *x = read_doubles(ctx, t);
    if (x) print_elements(t, x);
    free(x);
}

void show_value(nbx_context *ctx, const char *name, const char *path, const nbx_value *v) {
    printf("%s%s%s%s  ", name, strcmp(name, path) != 0 ? " (" : "", strcmp(name, path) != 0 ? path : "", strcmp(name, path) != 0 ? ")" : "");
    switch (v->kind) {
    case NBX_KIND_TENSOR: show_tensor(ctx, v->as.tensor); break;
    case NBX_KIND_INT: printf("%lld\n", (long long)v->as.integer); break;
    case NBX_KIND_FLOAT: printf("%.17g\n", v->as.real); break;
    case NBX_KIND_BOOL: printf("%s\n", v->as.boolean ? "True" : "False"); break;
    case NBX_KIND_STRING: printf("%s\n", v->as.string); break;
    default: printf("None\n"); break;
    }
}
