#include "userspace/stream/shape_table.h"

#include <sys/random.h>

#include "userspace/base/clock.h"

namespace rocattach {

uint64_t ShapeSeed() {
  uint64_t seed = 0;
  // Fails only early in the boot of the machine.
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) seed = BootNs();
  return seed;
}

}  // namespace rocattach
