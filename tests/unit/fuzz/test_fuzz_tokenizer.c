#define CORPUS "tokenizer"
#include "../../fuzz/fuzz_tokenizer.c"
#include "../../fuzz/replay.h"
