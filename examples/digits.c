// Loads an exported program, runs it on ten handwritten digits, prints what it reads. Run it in the project's folder.
#include <nbx/nbx.h>
#include <stdio.h>

static int fail(nbx_context *ctx) {
    fprintf(stderr, "%s\n", nbx_last_message(ctx));
    nbx_context_destroy(ctx);
    return 1;
}

int main(void) {
    enum { COUNT = 10 };
    nbx_context *ctx = nbx_context_create(NULL);
    nbx_program *program;
    nbx_session *session;
    nbx_tensors *images, *truth;
    int64_t read[COUNT], labels[COUNT];
    if (!ctx) return 1;
    if (nbx_program_load(ctx, "examples/digits.pt2", NULL, &program) != NBX_OK || nbx_session_create(ctx, program, &session) != NBX_OK ||
        nbx_tensors_load(ctx, "examples/digits.inputs.safetensors", &images) != NBX_OK ||
        nbx_tensors_load(ctx, "examples/digits.labels.safetensors", &truth) != NBX_OK)
        return fail(ctx);

    const nbx_value input = nbx_of_tensor(nbx_tensors_at(ctx, images, 0));  // [10, 1, 8, 8]
    nbx_value logits;                                                       // [10, 10]
    if (nbx_session_run(session, &input, 1, &logits, 1, NULL) != NBX_OK) return fail(ctx);
    nbx_tensor *best = nbx_argmax(ctx, logits.as.tensor, -1, false), *wanted = nbx_tensors_at(ctx, truth, 0);
    if (!best || !wanted || nbx_tensor_read(ctx, best, read) != NBX_OK || nbx_tensor_read(ctx, wanted, labels) != NBX_OK) return fail(ctx);

    int right = 0;
    for (int i = 0; i < COUNT; i++) right += read[i] == labels[i];
    for (int i = 0; i < COUNT; i++) printf("%lld%s", (long long)read[i], i + 1 < COUNT ? " " : "\n");
    printf("%d of %d are right\n", right, COUNT);
    nbx_tensors_destroy(images), nbx_tensors_destroy(truth);
    nbx_session_destroy(session), nbx_program_destroy(program);
    nbx_context_destroy(ctx);  // and all tensors that its scopes own
    return right == COUNT ? 0 : 1;
}
