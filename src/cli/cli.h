// What the files of the nbx command share: exit statuses, options, words to the user.
#ifndef NBX_CLI_CLI_H
#define NBX_CLI_CLI_H

#include "nbx/formats.h"
#include "nbx/program.h"

enum {
    EXIT_RIGHT = 0,
    EXIT_DIFFERS = 1,      // from what --expect says
    EXIT_USAGE = 2,
    EXIT_FILE = 3,         // cannot be read, or is malformed
    EXIT_UNSUPPORTED = 4,  // a program this library cannot run
    EXIT_FAILED = 5,       // the run failed
};

// Every command takes the arguments behind its name and returns the exit status.
int command_run(int count, char **args);
int command_info(int count, char **args);
int command_ops(int count, char **args);
int command_profile(int count, char **args);

// "nbx run: " and the message to stderr; returns the status.
int complain(const char *command, int status, const char *format, ...) NBX_PRINTF(3, 4);
// The context's message; the exit status that belongs to its failure while loading a file.
int complain_load(const char *command, nbx_context *ctx);

// Reads the value of an option ("--seed 3" or "--seed=3"): true if args[*at] is that option; *value NULL: its value is missing.
bool take_option(int count, char **args, int *at, const char *option, const char **value);
bool read_integer(const char *text, int64_t *value);
bool read_seed(const char *text, uint64_t *value);  // as torch.manual_seed: -2^63 to 2^64 - 1, negative ones wrap around
bool read_number(const char *text, double *value);
// nbx_options from --device, --threads and --isa texts (NULL: not given). false: complains.
bool read_context_options(const char *command, const char *device, const char *threads, const char *isa, nbx_options *options);

// show.c: a result, readably.
void show_value(nbx_context *ctx, const char *name, const char *path, const nbx_value *value);

// compare.c: got against wanted. true: equal within the tolerance (below 0: the dtype's own). text: where and by how much.
bool compare_tensors(nbx_context *ctx, const nbx_tensor *got, const nbx_tensor *wanted, double tolerance, double *largest,
                     char *text, size_t size);

// A program's report of problems, one line each, to stderr.
void print_problem(void *arg, const char *line);
// A JSON string with its quotes.
void print_json_text(const char *text);
// "[2, s0, 64]"
void print_dims(const nbx_program_value *v);

#endif
