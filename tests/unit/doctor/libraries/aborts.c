/* A library whose constructor aborts the process that loads it. */
#include <stdlib.h>
__attribute__((constructor)) static void Abort(void) {
  abort();
}
