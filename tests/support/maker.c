#include "support/maker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/zip.h"

// ---------------------------------------------------------------------------------------------------------------- text
static char *room(maker_text *t, size_t count) {
    if (t->count + count + 1 > t->capacity) {
        t->capacity = (t->count + count + 1) * 2;
        t->bytes = realloc(t->bytes, t->capacity);
        if (!t->bytes) abort();
    }
    return t->bytes + t->count;
}

void maker_add_bytes(maker_text *t, const void *bytes, size_t count) {
    char *to = room(t, count);
    if (count) memcpy(to, bytes, count);
    to[count] = 0;
    t->count += count;
}

void maker_add(maker_text *t, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int count = vsnprintf(NULL, 0, format, args);
    if (count < 0) abort();
    vsnprintf(room(t, (size_t)count), (size_t)count + 1, format, again);
    t->count += (size_t)count;
    va_end(again);
    va_end(args);
}

void maker_free(maker_text *t) {
    free(t->bytes);
    *t = (maker_text){NULL, 0, 0};
}

maker_text maker_read(const char *path) {
    maker_text t = {NULL, 0, 0};
    FILE *file = fopen(path, "rb");
    if (!file) return t;
    for (char block[1 << 16];;) {
        const size_t count = fread(block, 1, sizeof block, file);
        maker_add_bytes(&t, block, count);
        if (count < sizeof block) break;
    }
    fclose(file);
    return t;
}

bool maker_write(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const bool written = fwrite(bytes, 1, count, file) == count;
    return fclose(file) == 0 && written;
}

// ----------------------------------------------------------------------------------------------------------------- ZIP
static void add_number(maker_text *t, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) {
        const uint8_t byte = (uint8_t)(i < 8 ? number >> 8 * i : 0);
        maker_add_bytes(t, &byte, 1);
    }
}

static void add_sizes(maker_text *t, const char *name, const void *bytes, size_t count) {
    add_number(t, 0, 2);           // flags
    add_number(t, 0, 2);           // stored
    add_number(t, 0x21 << 16, 4);  // 1980-01-01
    add_number(t, nbx_crc32(bytes, count), 4);
    add_number(t, count, 4);
    add_number(t, count, 4);
    add_number(t, strlen(name), 2);
}

void zip_maker_add(zip_maker *z, const char *name, const void *bytes, size_t count) {
    const size_t at = z->file.count, head = at + 30 + strlen(name) + 4, padding = (64 - head % 64) % 64;
    maker_add_bytes(&z->file, "PK\3\4\24\0", 6);
    add_sizes(&z->file, name, bytes, count);
    add_number(&z->file, padding + 4, 2);
    maker_add_bytes(&z->file, name, strlen(name));
    maker_add_bytes(&z->file, "FB", 2);
    add_number(&z->file, padding, 2);
    for (size_t i = 0; i < padding; i++) maker_add_bytes(&z->file, "Z", 1);
    maker_add_bytes(&z->file, bytes, count);
    maker_add_bytes(&z->directory, "PK\1\2\24\0\24\0", 8);
    add_sizes(&z->directory, name, bytes, count);
    add_number(&z->directory, 0, 12);  // no extra field, comment, disk or attributes
    add_number(&z->directory, at, 4);
    maker_add_bytes(&z->directory, name, strlen(name));
    z->entries++;
}

void zip_maker_finish(zip_maker *z) {
    const size_t at = z->file.count;
    maker_add_bytes(&z->file, z->directory.bytes, z->directory.count);
    maker_add_bytes(&z->file, "PK\5\6\0\0\0\0", 8);
    add_number(&z->file, (uint64_t)z->entries, 2);
    add_number(&z->file, (uint64_t)z->entries, 2);
    add_number(&z->file, z->directory.count, 4);
    add_number(&z->file, at, 4);
    add_number(&z->file, 0, 2);
    maker_free(&z->directory);
}

// ------------------------------------------------------------------------------------------------------------ programs
static void comma(maker_text *t) {
    if (t->count) maker_add(t, ", ");
}

static void add_size(maker_text *t, const char *size) {
    if (size[0] == '-' || (size[0] >= '0' && size[0] <= '9')) maker_add(t, "{\"as_int\": %s}", size);
    else maker_add(t, "{\"as_expr\": {\"expr_str\": \"Symbol('%s', positive=True, integer=True)\", \"hint\": {\"as_int\": 2}}}", size);
}

// sizes and contiguous strides; behind a symbol strides are 1, which nobody reads.
static void add_meta(maker_text *t, int dtype, const char *sizes) {
    char copy[256], *parts[32];
    int rank = 0;
    snprintf(copy, sizeof copy, "%s", sizes);
    for (char *part = strtok(copy, ","); part && rank < 32; part = strtok(NULL, ",")) parts[rank++] = part;
    maker_add(t, "{\"dtype\": %d, \"sizes\": [", dtype);
    for (int i = 0; i < rank; i++) {
        if (i) maker_add(t, ", ");
        add_size(t, parts[i]);
    }
    maker_add(t, "], \"strides\": [");
    for (int i = 0; i < rank; i++) {
        long long stride = 1;
        for (int k = i + 1; k < rank; k++) stride *= atoll(parts[k]) > 1 ? atoll(parts[k]) : 1;
        maker_add(t, "%s{\"as_int\": %lld}", i ? ", " : "", stride);
    }
    maker_add(t, "], \"storage_offset\": {\"as_int\": 0}, \"device\": {\"type\": \"cpu\", \"index\": null}, \"layout\": 7, \"requires_grad\": false}");
}

static void add_value(program_maker *m, const char *name, int dtype, const char *sizes) {
    comma(&m->metas);
    maker_add(&m->metas, "\"%s\": ", name);
    add_meta(&m->metas, dtype, sizes);
}

static void add_input(program_maker *m, const char *name, int dtype, const char *sizes) {
    comma(&m->inputs);
    maker_add(&m->inputs, "{\"as_tensor\": {\"name\": \"%s\"}}", name);
    add_value(m, name, dtype, sizes);
    comma(&m->input_specs);
}

void program_maker_input(program_maker *m, const char *name, int dtype, const char *sizes) {
    add_input(m, name, dtype, sizes);
    maker_add(&m->input_specs, "{\"user_input\": {\"arg\": {\"as_tensor\": {\"name\": \"%s\"}}}}", name);
}

void program_maker_weight(program_maker *m, const char *name, int dtype, const char *sizes, const void *bytes, size_t count) {
    char path[64];
    add_input(m, name, dtype, sizes);
    maker_add(&m->input_specs, "{\"parameter\": {\"arg\": {\"name\": \"%s\"}, \"parameter_name\": \"%s\"}}", name, name);
    comma(&m->config);
    maker_add(&m->config, "\"%s\": {\"path_name\": \"weight_%d\", \"is_param\": true, \"use_pickle\": false, \"tensor_meta\": ", name, m->weights);
    add_meta(&m->config, dtype, sizes);
    maker_add(&m->config, "}");
    snprintf(path, sizeof path, "made/data/weights/weight_%d", m->weights++);
    zip_maker_add(&m->zip, path, bytes, count);
}

static void add_argument(maker_text *t, const char *value) {
    const bool number = value[0] == '-' || (value[0] >= '0' && value[0] <= '9');
    if (value[0] == '(') {
        char copy[512];
        snprintf(copy, sizeof copy, "%s", value + 1);
        maker_add(t, "{\"as_tensors\": [");
        bool first = true;
        for (char *part = strtok(copy, ",)"); part; part = strtok(NULL, ",)"), first = false)
            maker_add(t, "%s{\"name\": \"%s\"}", first ? "" : ", ", part);
        maker_add(t, "]}");
    } else if (value[0] == '[') maker_add(t, "{\"as_ints\": %s}", value);
    else if (value[0] == '"') maker_add(t, "{\"as_string\": %s}", value);
    else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) maker_add(t, "{\"as_bool\": %s}", value);
    else if (number) maker_add(t, strchr(value, '.') ? "{\"as_float\": %s}" : "{\"as_int\": %s}", value);
    else maker_add(t, "{\"as_tensor\": {\"name\": \"%s\"}}", value);
}

static void add_results(maker_text *t, const char *results) {
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", results[0] == '[' ? results + 1 : results);
    if (results[0] == '[') maker_add(t, "{\"as_tensors\": [");
    bool first = true;
    for (char *name = strtok_r(rest, " ]", &rest); name; name = strtok_r(NULL, " ]", &rest), first = false)
        maker_add(t, results[0] == '[' ? "%s{\"name\": \"%s\"}" : "%s{\"as_tensor\": {\"name\": \"%s\"}}", first ? "" : ", ", name);
    if (results[0] == '[') maker_add(t, "]}");
}

void program_maker_node(program_maker *m, const char *target, const char *results, const char *arguments) {
    char copy[1024], *rest = copy;
    snprintf(copy, sizeof copy, "%s", arguments);
    comma(&m->nodes);
    maker_add(&m->nodes, "{\"target\": \"%s\", \"inputs\": [", target);
    bool first = true;
    for (char *part = strtok_r(rest, " ", &rest); part; part = strtok_r(NULL, " ", &rest), first = false) {
        char *equals = strchr(part, '=');
        if (!equals) abort();
        *equals = 0;
        maker_add(&m->nodes, "%s{\"name\": \"%s\", \"arg\": ", first ? "" : ", ", part);
        add_argument(&m->nodes, equals + 1);
        maker_add(&m->nodes, ", \"kind\": 1}");
    }
    maker_add(&m->nodes, "], \"outputs\": [");
    add_results(&m->nodes, results);
    maker_add(&m->nodes, "], \"metadata\": {\"stack_trace\": \"  File \\\"made.py\\\", line 1, in forward\\n    made\\n\"}}");
}

static void add_output(program_maker *m, const char *name, int dtype, const char *sizes) {
    comma(&m->outputs);
    maker_add(&m->outputs, "{\"as_tensor\": {\"name\": \"%s\"}}", name);
    add_value(m, name, dtype, sizes);
    comma(&m->output_specs);
}

void program_maker_output(program_maker *m, const char *name, int dtype, const char *sizes) {
    add_output(m, name, dtype, sizes);
    maker_add(&m->output_specs, "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"%s\"}}}}", name);
}

void program_maker_mutation(program_maker *m, const char *name, const char *buffer, int dtype, const char *sizes) {
    add_output(m, name, dtype, sizes);
    maker_add(&m->output_specs, "{\"buffer_mutation\": {\"arg\": {\"name\": \"%s\"}, \"buffer_name\": \"%s\"}}", name, buffer);
}

static const char *or_nothing(const maker_text *t) { return t->bytes ? t->bytes : ""; }

maker_text program_maker_finish(program_maker *m) {
    maker_text json = {NULL, 0, 0}, config = {NULL, 0, 0};
    maker_add(&json, "{\"graph_module\": {\"graph\": {\"inputs\": [%s], \"outputs\": [%s], \"nodes\": [%s], \"tensor_values\": {%s}, ",
              or_nothing(&m->inputs), or_nothing(&m->outputs), or_nothing(&m->nodes), or_nothing(&m->metas));
    maker_add(&json, "\"sym_int_values\": {}, \"sym_bool_values\": {}, \"is_single_tensor_return\": false}, "
                     "\"signature\": {\"input_specs\": [%s], \"output_specs\": [%s]}, \"module_call_graph\": []}, "
                     "\"schema_version\": {\"major\": 8, \"minor\": 17}, \"range_constraints\": {%s}, \"torch_version\": \"2.11.0\"}",
              or_nothing(&m->input_specs), or_nothing(&m->output_specs), or_nothing(&m->ranges));
    maker_add(&config, "{\"config\": {%s}}", or_nothing(&m->config));
    zip_maker_add(&m->zip, "made/data/weights/model_weights_config.json", config.bytes, config.count);
    zip_maker_add(&m->zip, "made/data/constants/model_constants_config.json", "{\"config\": {}}", 14);
    zip_maker_add(&m->zip, "made/models/model.json", json.bytes, json.count);
    zip_maker_add(&m->zip, "made/archive_format", "pt2", 3);
    zip_maker_add(&m->zip, "made/archive_version", "0", 1);
    zip_maker_add(&m->zip, "made/byteorder", "little", 6);
    zip_maker_finish(&m->zip);
    maker_text *parts[] = {&json, &config, &m->inputs, &m->outputs, &m->nodes, &m->metas, &m->input_specs, &m->output_specs, &m->config, &m->ranges};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) maker_free(parts[i]);
    const maker_text file = m->zip.file;
    *m = (program_maker){0};
    return file;
}
