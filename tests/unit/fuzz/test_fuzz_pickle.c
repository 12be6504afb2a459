#define CORPUS "pickle"
#include "../../fuzz/fuzz_pickle.c"
#include "../../fuzz/replay.h"
