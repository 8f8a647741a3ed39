/* The row kernels for any processor of the architecture. */
#define LANES_TABLE lanes_base
#define LANES_NAME  "base"
#include "nn/lanes_body.h"
