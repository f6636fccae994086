#include "userspace/base/cpu_features.h"

namespace rocattach {
namespace {

bool HasAvx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}

}  // namespace

const bool kHasAvx2 = HasAvx2();

}  // namespace rocattach
