#define CORPUS "gguf"
#include "../../fuzz/fuzz_gguf.c"
#include "../../fuzz/replay.h"
