#include "userspace/record/drain/fault_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>

namespace rocattach {
namespace {

// A guarded region. The handler may run at any time on any thread, so it takes no lock:
// a place is valid while `base` is set, and places are never freed.
struct Place {
  std::atomic<bool> reserved = false;
  std::atomic<uintptr_t> base = 0;
  std::atomic<size_t> bytes = 0;
  std::atomic<bool> broken = false;
};

struct Block {
  static constexpr int kPlaces = 256;
  Place places[kPlaces];
  std::atomic<Block*> next = nullptr;
};

// Signal handlers are process-wide, so the data that they read is global too.
Block g_first;

Place* FindPlace(uintptr_t address) {
  for (Block* block = &g_first; block != nullptr; block = block->next.load()) {
    for (Place& place : block->places) {
      const uintptr_t base = place.base.load(std::memory_order_acquire);
      if (base != 0 && address >= base && address - base < place.bytes.load()) {
        return &place;
      }
    }
  }
  return nullptr;
}

void OnBusError(int number, siginfo_t* info, void*) {
  Place* place = FindPlace(reinterpret_cast<uintptr_t>(info->si_addr));
  if (place != nullptr) {
    place->broken.store(true);
    if (mmap(reinterpret_cast<void*>(place->base.load()), place->bytes.load(),
             PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) != MAP_FAILED) {
      return;
    }
  }
  // The access is repeated when this returns, and ends the process.
  signal(number, SIG_DFL);
}

void InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
  });
}

Place* ReservePlace() {
  for (Block* block = &g_first;;) {
    for (Place& place : block->places) {
      bool expected = false;
      if (!place.reserved.load(std::memory_order_relaxed) &&
          place.reserved.compare_exchange_strong(expected, true)) {
        return &place;
      }
    }
    Block* next = block->next.load();
    if (next == nullptr) {
      auto* made = new Block;
      if (block->next.compare_exchange_strong(next, made)) {
        next = made;
      } else {
        delete made;  // another thread was first; `next` is its block
      }
    }
    block = next;
  }
}

}  // namespace

FaultGuard::FaultGuard(void* base, size_t bytes) {
  InstallHandler();
  Place* place = ReservePlace();
  place->broken.store(false);
  place->bytes.store(bytes);
  place->base.store(reinterpret_cast<uintptr_t>(base), std::memory_order_release);
  place_ = place;
}

FaultGuard::~FaultGuard() {
  auto* place = static_cast<Place*>(place_);
  place->base.store(0, std::memory_order_release);
  place->reserved.store(false, std::memory_order_release);
}

bool FaultGuard::broken() const {
  return static_cast<const Place*>(place_)->broken.load(std::memory_order_acquire);
}

}  // namespace rocattach
