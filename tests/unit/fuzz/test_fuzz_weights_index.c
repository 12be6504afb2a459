#define CORPUS "weights_index"
#include "../../fuzz/fuzz_weights_index.c"
#include "../../fuzz/replay.h"
