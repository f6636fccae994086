/* A library whose constructor kills whoever loads it. */
#include <stdlib.h>
__attribute__((constructor)) static void Abort(void) {
  abort();
}
