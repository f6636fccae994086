/* The stub for a process that does not see the collector's file. */
#define ROCATTACH_STUB_BY_DESCRIPTOR
#include "injector/stub/stub_code.S"
