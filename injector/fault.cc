#include "injector/fault.h"

#ifdef ROCATTACH_FAULTS

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace rocattach {

bool FaultAt(const char* name) {
  const char* value = std::getenv("ROCATTACH_FAULT");
  if (value == nullptr) return false;
  absl::string_view fault = value;
  if (absl::ConsumePrefix(&fault, "delay-ms=")) {
    unsigned milliseconds;
    if (absl::SimpleAtoi(fault, &milliseconds)) usleep(milliseconds * 1000);
    return false;
  }
  if (fault == absl::StrCat("die-", name)) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  return fault == absl::StrCat("fail-", name);
}

}  // namespace rocattach

#endif  // ROCATTACH_FAULTS
