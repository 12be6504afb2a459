#define CORPUS "object_listing"
#include "../../fuzz/fuzz_object_listing.c"
#include "../../fuzz/replay.h"
