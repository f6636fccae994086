// Tells ThreadSanitizer how threads give up a shared absl::Status.
//
// Copying a status adds to its count in an inline function, which is instrumented here.
// Giving it up is a function of Debian's libabsl_status.so, which is not: the sanitizer
// does not see that the count orders the last user behind the others, and reports its
// delete as a race. The program's own definition of that function takes the library's
// place, with the same count and nothing hidden: a status that is really used by two
// threads at once is still reported.
#include "absl/status/status.h"

#include <atomic>
#include <cstdint>

namespace absl {
ABSL_NAMESPACE_BEGIN

void Status::UnrefNonInlined(uintptr_t rep) {
  status_internal::StatusRep* counted = RepToPointer(rep);
  if (counted->ref.fetch_sub(1, std::memory_order_acq_rel) == 1) delete counted;
}

ABSL_NAMESPACE_END
}  // namespace absl
