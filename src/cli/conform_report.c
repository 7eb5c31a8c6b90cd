// Counts, failures and measurements of a run: lines as it goes, then the summary.
#include "conform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Per operator and dtype, in order of first appearance.
typedef struct row {
    char op[NAME_BYTES];
    long passed, failed, skipped;
    struct {
        double ours, recorded;  // largest error in units of the last place
        long cases;
    } ulp[NBX_DTYPE_COUNT];
} row;

struct report {
    const options *options;
    FILE *json, *hashes;
    bool any_json, io_failed;
    long passed, failed, skipped, malformed;
    row *rows;
    size_t count, capacity;
};

static FILE *open_output(report *r, const char *path) {
    if (!path) return NULL;
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        r->io_failed = true;
    }
    return file;
}

report *report_create(const options *o) {
    report *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->options = o;
    r->json = open_output(r, o->json_path);
    r->hashes = open_output(r, o->hash_path);
    if (r->json) fputs("{\"cases\": [", r->json);
    return r;
}

static row *row_of(report *r, const char *op) {
    for (size_t i = r->count; i-- > 0;) {  // cases of an operator stand together
        if (!strcmp(r->rows[i].op, op)) return &r->rows[i];
    }
    if (r->count == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 64;
        row *grown = realloc(r->rows, capacity * sizeof *grown);
        if (!grown) return NULL;
        r->rows = grown;
        r->capacity = capacity;
    }
    row *fresh = &r->rows[r->count++];
    memset(fresh, 0, sizeof *fresh);
    memcpy(fresh->op, op, NAME_BYTES);
    return fresh;
}

// --------------------------------------------------------------------------------------------------------------- JSON
static void json_text(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') fprintf(file, "\\%c", *c);
        else if (*c < 0x20) fprintf(file, "\\u%04x", *c);
        else fputc(*c, file);
    }
    fputc('"', file);
}

static void json_ulp(FILE *file, double value) {
    if (isfinite(value)) fprintf(file, "%.4g", value);
    else fputs("\"inf\"", file);
}

static const char *verdict_text(verdict v) {
    static const char *const texts[] = {"passed", "failed", "skipped", "malformed", "done"};
    return texts[v];
}

static void json_case(report *r, const outcome *o) {
    fputs(r->any_json ? ",\n" : "\n", r->json);
    r->any_json = true;
    fputs("{\"id\": ", r->json);
    json_text(r->json, o->id);
    fputs(", \"op\": ", r->json);
    json_text(r->json, o->op);
    fputs(", \"file\": ", r->json);
    json_text(r->json, r->options->files[o->file]);
    fprintf(r->json, ", \"verdict\": \"%s\"", verdict_text(o->verdict));
    if (o->message[0]) {
        fputs(", \"message\": ", r->json);
        json_text(r->json, o->message);
    }
    if (o->ulp_ours >= 0) {
        fprintf(r->json, ", \"dtype\": \"%s\", \"ulp\": ", nbx_dtype_name(o->dtype));
        json_ulp(r->json, o->ulp_ours);
        fputs(", \"ulp_recorded\": ", r->json);
        json_ulp(r->json, o->ulp_recorded > 0 ? o->ulp_recorded : 0);
    }
    fputc('}', r->json);
}

static void json_rows(report *r) {
    fputs("\n], \"operators\": [", r->json);
    for (size_t i = 0; i < r->count; i++) {
        const row *w = &r->rows[i];
        fputs(i ? ",\n{\"op\": " : "\n{\"op\": ", r->json);
        json_text(r->json, w->op);
        fprintf(r->json, ", \"passed\": %ld, \"failed\": %ld, \"skipped\": %ld", w->passed, w->failed, w->skipped);
        for (int d = 0; d < NBX_DTYPE_COUNT; d++) {
            if (!w->ulp[d].cases) continue;
            fprintf(r->json, ", \"%s\": {\"cases\": %ld, \"ulp\": ", nbx_dtype_name((nbx_dtype)d), w->ulp[d].cases);
            json_ulp(r->json, w->ulp[d].ours);
            fputs(", \"ulp_recorded\": ", r->json);
            json_ulp(r->json, w->ulp[d].recorded);
            fputc('}', r->json);
        }
        fputc('}', r->json);
    }
    fprintf(r->json, "\n], \"passed\": %ld, \"failed\": %ld, \"skipped\": %ld}\n", r->passed, r->failed, r->skipped);
}

// ------------------------------------------------------------------------------------------------------------- adding
static void count_ulp(row *w, const outcome *o) {
    if (o->ulp_ours < 0 || o->dtype < 0 || o->dtype >= NBX_DTYPE_COUNT) return;
    w->ulp[o->dtype].cases++;
    if (o->ulp_ours > w->ulp[o->dtype].ours) w->ulp[o->dtype].ours = o->ulp_ours;
    if (o->ulp_recorded > w->ulp[o->dtype].recorded) w->ulp[o->dtype].recorded = o->ulp_recorded;
}

void report_add(report *r, const outcome *o) {
    if (o->index < 0) {
        fprintf(stderr, "nbx-conform: %s: %s\n", o->id, o->message);
        r->malformed++;
        return;
    }
    row *w = row_of(r, o->op);
    if (o->verdict == VERDICT_PASSED) {
        r->passed++;
        if (w) w->passed++, count_ulp(w, o);
    } else if (o->verdict == VERDICT_SKIPPED) {
        r->skipped++;
        if (w) w->skipped++;
        if (r->options->verbose) printf("SKIP %s %s: %s\n", o->id, o->op, o->message);
    } else {
        r->failed++;
        if (w) w->failed++;
        r->malformed += o->verdict == VERDICT_MALFORMED;
        printf("FAIL %s %s: %s%s\n", o->id, o->op, o->verdict == VERDICT_MALFORMED ? "malformed: " : "", o->message);
    }
    if (r->json) json_case(r, o);
    if (r->hashes && o->hash) fprintf(r->hashes, "%s %016llx\n", o->id, (unsigned long long)o->hash);
}

static void print_rows(const report *r) {
    printf("%-52s %7s %7s %7s   largest error in ulp, ours / recorded\n", "operator", "passed", "failed", "skipped");
    for (size_t i = 0; i < r->count; i++) {
        const row *w = &r->rows[i];
        printf("%-52s %7ld %7ld %7ld  ", w->op, w->passed, w->failed, w->skipped);
        for (int d = 0; d < NBX_DTYPE_COUNT; d++) {
            if (w->ulp[d].cases) printf(" %s %.3g / %.3g", nbx_dtype_name((nbx_dtype)d), w->ulp[d].ours, w->ulp[d].recorded);
        }
        putchar('\n');
    }
}

int report_finish(report *r) {
    if (r->options->verbose) print_rows(r);
    if (r->json) {
        json_rows(r);
        r->io_failed |= fclose(r->json) != 0;
    }
    if (r->hashes) r->io_failed |= fclose(r->hashes) != 0;
    printf("%ld passed, %ld failed, %ld skipped\n", r->passed, r->failed, r->skipped);
    const int status = r->malformed ? 3 : r->failed ? 1 : r->io_failed ? 2 : 0;
    free(r->rows);
    free(r);
    return status;
}
