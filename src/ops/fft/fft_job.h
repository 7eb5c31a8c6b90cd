// One call of the transforms: passes over dims, each from a buffer to a buffer.
#ifndef NBX_OPS_FFT_JOB_H
#define NBX_OPS_FFT_JOB_H

#include "ops/fft/fft.h"

typedef enum fft_buffer { FFT_INPUT, FFT_OUTPUT, FFT_SCRATCH } fft_buffer;

typedef struct fft_pass {
    fft_lines lines;
    int64_t plan;               // bytes from the start of the job
    int32_t from, to;           // fft_buffer
} fft_pass;

typedef struct fft_job {
    int32_t passes;
    bool mirror;                // a real transform of which both halves are wanted
    uint64_t dims;              // transformed ones, and the last of them, for mirror
    int32_t last;
    int64_t work_at;            // in scratch: after the complex input of a real result
    fft_pass pass[];            // then the plans
} fft_job;

#endif
