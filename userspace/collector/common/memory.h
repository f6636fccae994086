// The collector's side of the shared memory: created, mapped, initialised.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_MEMORY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "userspace/abi/geometry.h"
#include "userspace/abi/setup_failure.h"
#include "userspace/abi/shared_memory.h"

namespace rocattach::collector {

// One mapping of the sealed memfd; lives until the process ends. The geometry is kept
// here and never read back from the shared pages.
class Memory {
 public:
  // Creates the memfd, maps it and fills the control block; the descriptor is closed
  // before this returns. 0, or an errno value with nothing left behind.
  int Create(const rocattach_collector_config& config);
  // Unmaps the memory. Only if a later step of the setup failed, or in a forked child.
  void Discard();

  bool valid() const { return base_ != nullptr; }
  uint8_t* base() const { return base_; }
  const Geometry& geometry() const { return geometry_; }
  rocattach_control* control() const {
    return reinterpret_cast<rocattach_control*>(base_);
  }
  rocattach_ring* ring(uint32_t index) const {
    return reinterpret_cast<rocattach_ring*>(base_ + geometry_.rings_offset +
                                             index * geometry_.ring_stride);
  }
  rocattach_inflight* inflight(uint32_t index) const {
    return reinterpret_cast<rocattach_inflight*>(base_ + geometry_.inflight_offset) +
           index;
  }
  rocattach_plan* plan() const {
    return reinterpret_cast<rocattach_plan*>(base_ + geometry_.plan_offset);
  }

  // Makes sure that this entry can be accessed, if all before it can. See Commit().
  bool CommitInflight(uint32_t index);

  void SetState(rocattach_collector_state state);
  // `text` is truncated if it does not fit.
  void Refuse(rocattach_collector_reason reason, const char* text);

 private:
  uint8_t* base_ = nullptr;
  Geometry geometry_;
};

// Makes sure that accesses to these pages do not fault for lack of memory, which in
// shared memory is a SIGBUS: each page must be committed before it is accessed for the
// first time. False if there is no memory; the contents do not change.
bool Commit(void* begin, size_t bytes);

// Number of bytes of a table that are committed at a time.
inline constexpr uint32_t kCommitBytes = 16384;

// Stores which call of the setup has failed; returns `error`.
int Failed(rocattach_setup_call call, int error);
rocattach_setup_call FailedCall();

// Allocates private zeroed memory that is never freed; nullptr if there is none.
void* AllocatePrivate(size_t bytes);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_MEMORY_H_
