// make_dispatches in C.
#include "tests/integration/environments/dispatches.h"

int main(void) {
  return make_dispatches();
}
