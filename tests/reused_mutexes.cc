// Aborts if Abseil's search for deadlocks takes mutexes for those that were destroyed at
// their addresses.
#include <memory>
#include <new>

#include "absl/synchronization/mutex.h"

int main() {
  alignas(absl::Mutex) unsigned char places[2][sizeof(absl::Mutex)];
  for (int i = 0; i < 2; ++i) {
    auto* first = new (places[i]) absl::Mutex;
    auto* second = new (places[1 - i]) absl::Mutex;
    first->Lock();
    second->Lock();
    second->Unlock();
    first->Unlock();
    std::destroy_at(first);
    std::destroy_at(second);
  }
  return 0;
}
