#define CORPUS "bound_text"
#include "../../fuzz/fuzz_bound_text.c"
#include "../../fuzz/replay.h"
