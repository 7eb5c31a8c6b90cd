// Reads JSON in one pass. Children are collected on a stack and copied to the arena when their array or object closes, so a
// tree costs 16 bytes a value and no allocation of its own. Strings stay in the document's copy of the text, unescaped in
// place. Objects of more than 8 members carry a table of hashes behind them (model.json has objects of 10 000 members).
#include "program/json.h"

#include "core/context.h"
#include "core/memory.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_OBJECT = 8, CHUNK_BYTES = 1 << 16 };

typedef struct chunk chunk;
struct chunk {
    chunk *next;
    size_t used, bytes;
    _Alignas(16) char data[];
};

struct nbx_json_document {
    char *text;
    chunk *chunks;
    nbx_json root;
};

typedef struct parser {
    nbx_context *ctx;
    const char *what;
    nbx_json_document *document;
    char *text, *at, *end;
    nbx_json_member *stack;  // values of open arrays and objects
    size_t stack_count, stack_capacity;
    int depth;
    locale_t locale;         // "C", made when the first long number is read
} parser;

static bool fail_at(parser *p, const char *where, const char *problem) {
    size_t line = 1;
    const char *start = p->text;
    for (const char *c = p->text; c < where; c++) {
        if (*c == '\n') line++, start = c + 1;
    }
    nbx_fail(p->ctx, NBX_ERROR_FORMAT, "%s: line %zu, column %zu: %s", p->what, line, (size_t)(where - start) + 1, problem);
    return false;
}

static bool fail(parser *p, const char *problem) { return fail_at(p, p->at, problem); }

static void *arena_alloc(parser *p, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    chunk *c = p->document->chunks;
    if (!c || c->bytes - c->used < bytes) {
        const size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk *fresh = nbx_alloc(sizeof(chunk) + room);
        if (!fresh) {
            nbx_fail_memory(p->ctx, room, p->what);
            return NULL;
        }
        *fresh = (chunk){.next = c, .used = 0, .bytes = room};
        p->document->chunks = c = fresh;
    }
    void *result = c->data + c->used;
    c->used += bytes;
    return result;
}

static bool push(parser *p, const nbx_json_member *member) {
    if (p->stack_count == p->stack_capacity) {
        const size_t capacity = p->stack_capacity ? 2 * p->stack_capacity : 256;
        nbx_json_member *grown = nbx_realloc(p->stack, capacity * sizeof *grown);
        if (!grown) {
            nbx_fail_memory(p->ctx, capacity * sizeof *grown, p->what);
            return false;
        }
        p->stack = grown;
        p->stack_capacity = capacity;
    }
    p->stack[p->stack_count++] = *member;
    return true;
}

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')) p->at++;
}

static bool take(parser *p, char c) {
    if (p->at >= p->end || *p->at != c) return false;
    p->at++;
    return true;
}

// ----------------------------------------------------------------------------------------------------------- strings
// Bytes of the UTF-8 sequence at s, 0 if it is broken: continuation bytes, overlong forms, surrogates, past U+10FFFF.
static int utf8_bytes(const unsigned char *s, const unsigned char *end) {
    const unsigned char c = *s;
    const int n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (n < 2) return n;
    if (end - s < n) return 0;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f)) return 0;
    return n;
}

static char *put_utf8(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 63));
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

static bool read_hex4(parser *p, uint32_t *code) {
    if (p->end - p->at < 4) return fail(p, "\\u needs four hexadecimal digits");
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = p->at[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return fail(p, "\\u needs four hexadecimal digits");
        value = value << 4 | (uint32_t)digit;
    }
    p->at += 4;
    *code = value;
    return true;
}

static bool read_unicode_escape(parser *p, char **to) {
    uint32_t code, low;
    if (!read_hex4(p, &code)) return false;
    if (code >= 0xdc00 && code < 0xe000) return fail(p, "lone surrogate");
    if (code >= 0xd800 && code < 0xdc00) {
        if (!take(p, '\\') || !take(p, 'u')) return fail(p, "lone surrogate");
        if (!read_hex4(p, &low)) return false;
        if (low < 0xdc00 || low >= 0xe000) return fail(p, "lone surrogate");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, code);
    return true;
}

static bool read_escape(parser *p, char **to) {
    if (p->at >= p->end) return fail(p, "unfinished string");
    const char c = *p->at++;
    if (c == 'u') return read_unicode_escape(p, to);
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) return fail_at(p, p->at - 1, "unknown escape");
    *(*to)++ = into[found - from];
    return true;
}

// Reads the string after its opening quote; an unescaped string is never longer than its text, so it is written in place.
static bool read_string(parser *p, const char **string, uint32_t *bytes) {
    char *start = p->at;
    while (p->at < p->end && *p->at != '"' && *p->at != '\\' && (unsigned char)*p->at >= 0x20 && (unsigned char)*p->at < 0x80) p->at++;
    char *to = p->at;
    for (;;) {
        if (p->at >= p->end) return fail_at(p, start - 1, "unfinished string");
        const unsigned char c = (unsigned char)*p->at;
        if (c == '"') break;
        if (c < 0x20) return fail(p, "control character in a string");
        if (c == '\\') {
            p->at++;
            if (!read_escape(p, &to)) return false;
            continue;
        }
        const int n = utf8_bytes((unsigned char *)p->at, (unsigned char *)p->end);
        if (!n) return fail(p, "broken UTF-8");
        for (int i = 0; i < n; i++) *to++ = *p->at++;
    }
    p->at++;
    if ((size_t)(to - start) > UINT32_MAX) return fail_at(p, start - 1, "string too long");
    *to = 0;
    *string = start;
    *bytes = (uint32_t)(to - start);
    return true;
}

// ----------------------------------------------------------------------------------------------------------- numbers
static bool is_digit(const parser *p, const char *at) { return at < p->end && *at >= '0' && *at <= '9'; }

// strtod in the "C" locale, whatever the program around us has set.
static bool read_long_number(parser *p, const char *start, size_t bytes, double *value) {
    char small[64];
    char *text = bytes < sizeof small ? small : nbx_alloc(bytes + 1);
    if (!p->locale) p->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!text || !p->locale) {
        if (text != small) nbx_free(text);
        nbx_fail_memory(p->ctx, bytes, p->what);
        return false;
    }
    memcpy(text, start, bytes);
    text[bytes] = 0;
    *value = strtod_l(text, NULL, p->locale);
    if (text != small) nbx_free(text);
    return true;
}

// Digits below 2^53 times a power of ten up to 10^22 is exact in one operation; the rest goes through strtod.
static bool make_float(parser *p, const char *start, bool exact, uint64_t digits, long exponent, bool negative, double *value) {
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (!exact || digits > (UINT64_C(1) << 53) || exponent < -22 || exponent > 22) {
        return read_long_number(p, start, (size_t)(p->at - start), value);
    }
    const double d = exponent < 0 ? (double)digits / power[-exponent] : (double)digits * power[exponent];
    *value = negative ? -d : d;
    return true;
}

static bool read_number(parser *p, nbx_json *value) {
    const char *start = p->at;
    const bool negative = take(p, '-');
    if (p->end - p->at >= 8 && !memcmp(p->at, "Infinity", 8)) {
        p->at += 8;
        *value = (nbx_json){.kind = NBX_JSON_FLOAT, .as.real = negative ? -INFINITY : INFINITY};
        return true;
    }
    if (!is_digit(p, p->at)) return fail(p, "expected a value");
    if (*p->at == '0' && is_digit(p, p->at + 1)) return fail(p, "a number must not begin with 0");
    uint64_t digits = 0;
    bool exact = true, whole = true;
    long exponent = 0;
    for (; is_digit(p, p->at); p->at++) {
        const uint64_t digit = (uint64_t)(*p->at - '0');
        if (digits > (UINT64_MAX - digit) / 10) exact = false;
        else digits = digits * 10 + digit;
    }
    if (take(p, '.')) {
        whole = false;
        if (!is_digit(p, p->at)) return fail(p, "expected a digit");
        for (; is_digit(p, p->at); p->at++, exponent--) {
            const uint64_t digit = (uint64_t)(*p->at - '0');
            if (digits > (UINT64_MAX - digit) / 10) exact = false;
            else digits = digits * 10 + digit;
        }
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        whole = false;
        p->at++;
        const bool down = take(p, '-');
        if (!down) take(p, '+');
        if (!is_digit(p, p->at)) return fail(p, "expected a digit");
        long written = 0;
        for (; is_digit(p, p->at); p->at++) {
            if (written < 100000) written = written * 10 + (*p->at - '0');
        }
        exponent += down ? -written : written;
    }
    if (whole && exact && digits <= (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        const int64_t integer = negative ? (int64_t)(0 - digits) : (int64_t)digits;
        *value = (nbx_json){.kind = NBX_JSON_INT, .as.integer = integer};
        return true;
    }
    double real;
    if (!make_float(p, start, exact, digits, exponent, negative, &real)) return false;
    *value = (nbx_json){.kind = NBX_JSON_FLOAT, .as.real = real};
    return true;
}

// ----------------------------------------------------------------------------------------------- objects and arrays
static uint32_t hash_name(const char *name, size_t bytes) {  // FNV-1a
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static bool same_name(const nbx_json_member *m, const char *name, size_t bytes, uint32_t hash) {
    return m->hash == hash && m->name_bytes == bytes && !memcmp(m->name, name, bytes);
}

static uint32_t table_size(uint32_t count) {  // a power of two, at most half full
    uint32_t size = 16;
    while (size < 2 * count) size *= 2;
    return size;
}

// Behind the members of a large object: position + 1 of the member in each slot, 0 for an empty one.
static uint32_t *table_of(const nbx_json_member *members, uint32_t count) { return (uint32_t *)(uintptr_t)(members + count); }

static bool index_members(parser *p, const nbx_json_member *members, uint32_t count) {
    if (count <= SMALL_OBJECT) {
        for (uint32_t i = 1; i < count; i++) {
            for (uint32_t j = 0; j < i; j++) {
                if (same_name(&members[j], members[i].name, members[i].name_bytes, members[i].hash)) {
                    return fail_at(p, members[i].name, "repeated name");
                }
            }
        }
        return true;
    }
    uint32_t *table = table_of(members, count);
    const uint32_t mask = table_size(count) - 1;
    memset(table, 0, (mask + 1) * sizeof *table);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = members[i].hash & mask;
        for (; table[slot]; slot = (slot + 1) & mask) {
            if (same_name(&members[table[slot] - 1], members[i].name, members[i].name_bytes, members[i].hash)) {
                return fail_at(p, members[i].name, "repeated name");
            }
        }
        table[slot] = i + 1;
    }
    return true;
}

static bool read_value(parser *p, nbx_json *value);

static bool close_array(parser *p, size_t base, nbx_json *value) {
    const size_t count = p->stack_count - base;
    if (count > UINT32_MAX / 4) return fail(p, "array too long");
    nbx_json *items = count ? arena_alloc(p, count * sizeof *items) : NULL;
    if (count && !items) return false;
    for (size_t i = 0; i < count; i++) items[i] = p->stack[base + i].value;
    p->stack_count = base;
    *value = (nbx_json){.kind = NBX_JSON_ARRAY, .count = (uint32_t)count, .as.items = items};
    return true;
}

static bool read_array(parser *p, nbx_json *value) {
    const size_t base = p->stack_count;
    skip_space(p);
    if (take(p, ']')) return close_array(p, base, value);
    do {
        nbx_json_member element = {0};
        if (!read_value(p, &element.value) || !push(p, &element)) return false;
        skip_space(p);
    } while (take(p, ','));
    if (!take(p, ']')) return fail(p, "expected ',' or ']'");
    return close_array(p, base, value);
}

static bool close_object(parser *p, size_t base, nbx_json *value) {
    const size_t count = p->stack_count - base;
    if (count > UINT32_MAX / 4) return fail(p, "object too large");
    const size_t table = count > SMALL_OBJECT ? table_size((uint32_t)count) * sizeof(uint32_t) : 0;
    nbx_json_member *members = count ? arena_alloc(p, count * sizeof *members + table) : NULL;
    if (count && !members) return false;
    if (count) memcpy(members, p->stack + base, count * sizeof *members);
    p->stack_count = base;
    *value = (nbx_json){.kind = NBX_JSON_OBJECT, .count = (uint32_t)count, .as.members = members};
    return index_members(p, members, (uint32_t)count);
}

static bool read_object(parser *p, nbx_json *value) {
    const size_t base = p->stack_count;
    skip_space(p);
    if (take(p, '}')) return close_object(p, base, value);
    do {
        nbx_json_member member = {0};
        skip_space(p);
        if (!take(p, '"')) return fail(p, "expected a name in quotes");
        if (!read_string(p, &member.name, &member.name_bytes)) return false;
        member.hash = hash_name(member.name, member.name_bytes);
        skip_space(p);
        if (!take(p, ':')) return fail(p, "expected ':'");
        if (!read_value(p, &member.value) || !push(p, &member)) return false;
        skip_space(p);
    } while (take(p, ','));
    if (!take(p, '}')) return fail(p, "expected ',' or '}'");
    return close_object(p, base, value);
}

static bool read_word(parser *p, const char *word, nbx_json meaning, nbx_json *value) {
    const size_t bytes = strlen(word);
    if ((size_t)(p->end - p->at) < bytes || memcmp(p->at, word, bytes)) return fail(p, "expected a value");
    p->at += bytes;
    *value = meaning;
    return true;
}

static bool read_nested(parser *p, nbx_json *value) {
    if (p->depth == NBX_JSON_MAX_DEPTH) return fail(p, "nested too deeply");
    p->depth++;
    const bool ok = *p->at++ == '{' ? read_object(p, value) : read_array(p, value);
    p->depth--;
    return ok;
}

static bool read_value(parser *p, nbx_json *value) {
    skip_space(p);
    if (p->at >= p->end) return fail(p, "the text ends where a value is due");
    switch (*p->at) {
    case '{':
    case '[': return read_nested(p, value);
    case '"':
        p->at++;
        *value = (nbx_json){.kind = NBX_JSON_STRING};
        return read_string(p, &value->as.string, &value->count);
    case 't': return read_word(p, "true", (nbx_json){.kind = NBX_JSON_BOOL, .as.boolean = true}, value);
    case 'f': return read_word(p, "false", (nbx_json){.kind = NBX_JSON_BOOL, .as.boolean = false}, value);
    case 'n': return read_word(p, "null", (nbx_json){.kind = NBX_JSON_NULL}, value);
    case 'N': return read_word(p, "NaN", (nbx_json){.kind = NBX_JSON_FLOAT, .as.real = NAN}, value);
    default: return read_number(p, value);
    }
}

// ---------------------------------------------------------------------------------------------------------- documents
nbx_json_document *nbx_json_create(nbx_context *ctx, const char *what, const char *text, size_t bytes) {
    nbx_json_document *document = nbx_alloc_zero(sizeof *document);
    char *copy = document && bytes < (size_t)-1 ? nbx_alloc(bytes + 1) : NULL;
    if (!copy) {
        nbx_free(document);
        nbx_fail_memory(ctx, bytes, what);
        return NULL;
    }
    if (bytes) memcpy(copy, text, bytes);  // an empty entry of an archive has no address
    copy[bytes] = 0;
    document->text = copy;
    parser p = {.ctx = ctx, .what = what, .document = document, .text = copy, .at = copy, .end = copy + bytes};
    bool ok = read_value(&p, &document->root);
    if (ok) {
        skip_space(&p);
        if (p.at < p.end) ok = fail(&p, "text after the value");
    }
    nbx_free(p.stack);
    if (p.locale) freelocale(p.locale);
    if (ok) return document;
    nbx_json_destroy(document);
    return NULL;
}

void nbx_json_destroy(nbx_json_document *document) {
    if (!document) return;
    for (chunk *c = document->chunks, *next; c; c = next) {
        next = c->next;
        nbx_free(c);
    }
    nbx_free(document->text);
    nbx_free(document);
}

const nbx_json *nbx_json_root(const nbx_json_document *document) { return &document->root; }

const nbx_json *nbx_json_get(const nbx_json *object, const char *name) {
    if (!nbx_json_is(object, NBX_JSON_OBJECT)) return NULL;
    const nbx_json_member *members = object->as.members;
    const size_t bytes = strlen(name);
    const uint32_t hash = hash_name(name, bytes);
    if (object->count <= SMALL_OBJECT) {
        for (uint32_t i = 0; i < object->count; i++) {
            if (same_name(&members[i], name, bytes, hash)) return &members[i].value;
        }
        return NULL;
    }
    const uint32_t *table = table_of(members, object->count);
    const uint32_t mask = table_size(object->count) - 1;
    for (uint32_t slot = hash & mask; table[slot]; slot = (slot + 1) & mask) {
        if (same_name(&members[table[slot] - 1], name, bytes, hash)) return &members[table[slot] - 1].value;
    }
    return NULL;
}

const nbx_json *nbx_json_at(const nbx_json *array, size_t index) {
    return nbx_json_is(array, NBX_JSON_ARRAY) && index < array->count ? &array->as.items[index] : NULL;
}
