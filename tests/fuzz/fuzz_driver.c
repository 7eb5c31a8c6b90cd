// A stand-in for libFuzzer where the compiler has none: mutates the files of a corpus and feeds them to a target.
//   TARGET [-max_total_time=SECONDS] [-runs=N] [-seed=N] FILE_OR_FOLDER...
// An input that crashes is written to crash-TARGET before the process dies. Without options each input runs once, as it is.
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { MAX_INPUTS = 4096, MAX_BYTES = 1 << 20 };

static struct {
    uint8_t *data;
    size_t size;
} corpus[MAX_INPUTS];
static size_t corpus_count;
static uint8_t current[MAX_BYTES];
static size_t current_size;
static const char *program;
static uint64_t random_state = 1;

static uint64_t random_next(void) {  // xorshift64*
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

static size_t below(size_t n) { return n ? random_next() % n : 0; }

static void save_current(void) {
    char path[300];
    const char *name = strrchr(program, '/');
    snprintf(path, sizeof path, "crash-%.200s", name ? name + 1 : program);
    FILE *file = fopen(path, "wb");
    if (!file) return;
    fwrite(current, 1, current_size, file);
    fclose(file);
    fprintf(stderr, "the input is in %s\n", path);
}

static void on_signal(int number) {
    save_current();
    signal(number, SIG_DFL);
    raise(number);
}

static void read_input(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = file ? malloc(MAX_BYTES) : NULL;
    if (data && corpus_count < MAX_INPUTS) {
        corpus[corpus_count].size = fread(data, 1, MAX_BYTES, file);
        corpus[corpus_count++].data = data;
    } else {
        free(data);
    }
    if (file) fclose(file);
}

static void read_inputs(const char *path) {
    struct stat facts;
    if (stat(path, &facts)) return;
    if (!S_ISDIR(facts.st_mode)) {
        read_input(path);
        return;
    }
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char file[600];
        snprintf(file, sizeof file, "%.300s/%.255s", path, entry->d_name);
        if (entry->d_name[0] != '.') read_input(file);
    }
    if (folder) closedir(folder);
}

// ---------------------------------------------------------------------------------------------------------- mutations
static void remove_bytes(void) {
    const size_t at = below(current_size), most = current_size - at, n = 1 + below(most < 64 ? most : 64);
    if (n > most) return;
    memmove(current + at, current + at + n, most - n);
    current_size -= n;
}

static void insert_bytes(const uint8_t *from, size_t n) {
    const size_t at = below(current_size + 1);
    if (current_size + n > MAX_BYTES) return;
    memmove(current + at + n, current + at, current_size - at);
    memcpy(current + at, from, n);
    current_size += n;
}

static void write_number(void) {
    static const uint64_t numbers[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    const uint64_t number = numbers[below(sizeof numbers / sizeof *numbers)];
    const size_t bytes = (size_t)1 << below(4);
    if (current_size < bytes) return;
    memcpy(current + below(current_size - bytes + 1), &number, bytes);
}

static void splice(void) {
    const size_t other = below(corpus_count), size = corpus[other].size;
    const size_t at = below(size), n = 1 + below(size - at < 256 ? size - at : 256);
    if (at + n <= size) insert_bytes(corpus[other].data + at, n);
}

static void mutate_once(void) {
    static const char *const words[] = {"[", "]", "{", "}", "\"", ",", ":", "\\u0000", "1e999", "-1", "99999999999999999999", "null", "NaN", "PK\1\2", "PK\5\6"};
    const char *word = words[below(sizeof words / sizeof *words)];
    switch (below(7)) {
    case 0:
        if (current_size) current[below(current_size)] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (current_size) current[below(current_size)] = (uint8_t)random_next();
        break;
    case 2:
        if (current_size) remove_bytes();
        break;
    case 3: insert_bytes((const uint8_t *)word, strlen(word)); break;
    case 4: write_number(); break;
    case 5: splice(); break;
    default: current_size = below(8) ? current_size : below(current_size + 1); break;
    }
}

int main(int argc, char **argv) {
    long seconds = 0, runs = 0;
    program = argv[0];
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "-max_total_time=", 16)) seconds = atol(argv[i] + 16);
        else if (!strncmp(argv[i], "-runs=", 6)) runs = atol(argv[i] + 6);
        else if (!strncmp(argv[i], "-seed=", 6)) random_state = strtoull(argv[i] + 6, NULL, 10) * 2 + 1;
        else if (argv[i][0] != '-') read_inputs(argv[i]);
    }
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_current);
    const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], on_signal);
    long done = 0;
    for (size_t i = 0; i < corpus_count; i++, done++) LLVMFuzzerTestOneInput(corpus[i].data, corpus[i].size);
    const time_t end = time(NULL) + seconds;
    for (long i = 0; (seconds && time(NULL) < end) || i < runs; i++, done++) {
        const size_t input = below(corpus_count);
        current_size = corpus_count ? corpus[input].size : 0;
        if (current_size) memcpy(current, corpus[input].data, current_size);
        for (size_t n = 1 + below(6); n; n--) mutate_once();
        alarm(60);  // an input that takes a minute hangs
        uint8_t *exact = malloc(current_size ? current_size : 1);  // so that a read past the end is seen
        if (!exact) return 1;
        memcpy(exact, current, current_size);
        LLVMFuzzerTestOneInput(exact, current_size);
        free(exact);
    }
    printf("%s: %ld inputs, no crash\n", program, done);
    return 0;
}
