#define CORPUS "slurm_jobs"
#include "../../fuzz/fuzz_slurm_jobs.c"
#include "../../fuzz/replay.h"
