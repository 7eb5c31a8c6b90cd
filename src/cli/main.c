// The nbx command: chooses what to do, and what all commands need.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "nbx - runs programs that torch.export.save wrote, without PyTorch and Python\n"
    "\n"
    "  nbx run MODEL.pt2 [options]    run a program on inputs, show, save or compare the results\n"
    "  nbx info MODEL.pt2 [--json]    what a program takes, gives and needs, and whether it can run here\n"
    "  nbx profile MODEL.pt2          where the time of a run goes, call by call\n"
    "  nbx ops [NAME] [options]       the operators this library knows, and where they run\n"
    "  nbx COMMAND --help             more about a command\n"
    "  nbx --version\n"
    "\n"
    "A first run, on the inputs stored in the file:  nbx run model.pt2\n";

int complain(const char *command, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "nbx %s: ", command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return status;
}

int complain_load(const char *command, nbx_context *ctx) {
    const nbx_status status = nbx_last_status(ctx);
    const int code = status == NBX_ERROR_IO || status == NBX_ERROR_FORMAT              ? EXIT_FILE
                     : status == NBX_ERROR_UNSUPPORTED || status == NBX_ERROR_UNKNOWN ? EXIT_UNSUPPORTED
                     : status == NBX_ERROR_ARGUMENT                                   ? EXIT_USAGE
                                                                                      : EXIT_FAILED;
    return complain(command, code, "%s", nbx_last_message(ctx));
}

bool take_option(int count, char **args, int *at, const char *option, const char **value) {
    const size_t length = strlen(option);
    if (strncmp(args[*at], option, length) != 0) return false;
    if (args[*at][length] == '=') {
        *value = args[*at] + length + 1;
        return true;
    }
    if (args[*at][length]) return false;
    *value = *at + 1 < count ? args[++*at] : NULL;
    return true;
}

bool read_integer(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 0);
    return *text && !*end && !errno;
}

bool read_seed(const char *text, uint64_t *value) {
    int64_t negative;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 0);
    if (*text && *text != '-' && !*end && !errno) return true;
    if (*text != '-' || !read_integer(text, &negative)) return false;
    *value = (uint64_t)negative;
    return true;
}

bool read_number(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return *text && !*end;
}

bool read_context_options(const char *command, const char *device, const char *threads, const char *isa, nbx_options *options) {
    int64_t number = 0;
    memset(options, 0, sizeof *options);
    if (device && !nbx_device_parse(device, &options->device)) return complain(command, 0, "%s is no device: say cpu, cuda or cuda:1", device), false;
    if (device && nbx_device_problem(options->device))
        return complain(command, 0, "there is no device %s here: %s", device, nbx_device_problem(options->device)), false;
    if (threads && (!read_integer(threads, &number) || number < 0 || number > 4096))
        return complain(command, 0, "--threads takes a number from 0 to 4096, not %s", threads), false;
    if (isa && strcmp(isa, "baseline") != 0 && strcmp(isa, "avx2") != 0 && strcmp(isa, "avx512") != 0)
        return complain(command, 0, "--isa takes baseline, avx2 or avx512, not %s", isa), false;
    options->threads = (int)number;
    options->isa = isa;
    return true;
}

void print_problem(void *arg, const char *line) {
    (void)arg;
    fprintf(stderr, "  %s\n", line);
}

void print_json_text(const char *text) {
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') printf("\\%c", *c);
        else if (*c < 0x20) printf("\\u%04x", *c);
        else putchar(*c);
    }
    putchar('"');
}

void print_dims(const nbx_program_value *v) {
    putchar('[');
    for (int i = 0; i < v->rank; i++) {
        const nbx_program_dim *d = &v->dims[i];
        if (d->size >= 0) printf("%s%lld", i ? ", " : "", (long long)d->size);
        else printf("%s%s", i ? ", " : "", d->symbol && d->symbol[0] ? d->symbol : "?");
    }
    putchar(']');
}

// Output that went nowhere (a full disk, a closed stdout) must not look like success. A status of another failure stays.
static int flush_output(int code) {
    const bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (written || code != EXIT_RIGHT) return code;
    fputs("nbx: standard output cannot be written\n", stderr);
    return EXIT_FILE;
}

int main(int count, char **args) {
    static const struct { const char *name; int (*run)(int, char **); } commands[] = {
        {"run", command_run}, {"info", command_info}, {"profile", command_profile}, {"ops", command_ops},
    };
    if (count < 2) return fputs(help, stderr), EXIT_USAGE;
    if (strcmp(args[1], "--help") == 0 || strcmp(args[1], "-h") == 0 || strcmp(args[1], "help") == 0) return fputs(help, stdout), flush_output(EXIT_RIGHT);
    if (strcmp(args[1], "--version") == 0) return printf("nbx %s\n", nbx_version()), flush_output(EXIT_RIGHT);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(args[1], commands[i].name) == 0) return flush_output(commands[i].run(count - 2, args + 2));
    fprintf(stderr, "nbx: there is no command %s\n\n%s", args[1], help);
    return EXIT_USAGE;
}
