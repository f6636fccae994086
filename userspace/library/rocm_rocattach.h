/* The header of librocprofiler-sdk-rocattach, for programs that include it. */
#include <rocattach/rocattach.h>
