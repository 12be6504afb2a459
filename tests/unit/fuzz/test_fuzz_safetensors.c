#define CORPUS "safetensors"
#include "../../fuzz/fuzz_safetensors.c"
#include "../../fuzz/replay.h"
