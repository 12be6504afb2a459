#define CORPUS "gguf_tokenizer"
#include "../../fuzz/fuzz_gguf_tokenizer.c"
#include "../../fuzz/replay.h"
