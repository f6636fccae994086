#include "userspace/watch/late/awaited_call.h"

#include <utility>

namespace rocattach {

AwaitedCall::AwaitedCall(rocattach_call* call, std::function<void()> give_back)
    : call_(call), give_back_(std::move(give_back)) {
  __atomic_store_n(&call_->state, rwa_u32{ROCATTACH_CALL_AWAITED}, __ATOMIC_RELEASE);
}

AwaitedCall::~AwaitedCall() {
  Close();
  give_back_();
}

uint32_t AwaitedCall::state() const {
  return __atomic_load_n(&call_->state, __ATOMIC_ACQUIRE);
}

bool AwaitedCall::Move(rocattach_call_state from, rocattach_call_state to) {
  rwa_u32 expected = from;
  return __atomic_compare_exchange_n(&call_->state, &expected, rwa_u32{to},
                                     /*weak=*/false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

void AwaitedCall::Await() {
  for (auto from : {ROCATTACH_CALL_SEEN, ROCATTACH_CALL_STOPPING}) {
    (void)Move(from, ROCATTACH_CALL_AWAITED);
  }
}

void AwaitedCall::Close() {
  __atomic_store_n(&call_->state, rwa_u32{ROCATTACH_CALL_OFF}, __ATOMIC_RELEASE);
}

uint64_t AwaitedCall::hit_ns() const {
  return __atomic_load_n(&call_->hit_ns, __ATOMIC_ACQUIRE);
}

std::optional<SeenCall> AwaitedCall::Seen() {
  if (state() != ROCATTACH_CALL_SEEN) return std::nullopt;
  return SeenCall{static_cast<pid_t>(call_->tid), static_cast<int>(call_->cpu),
                  call_->ip, call_->sp};
}

bool AwaitedCall::IsAwaited() {
  return state() != ROCATTACH_CALL_OFF;
}

void AwaitedCall::Arm() {
  // No effect if the process has run another program meanwhile, which closes the slot.
  if (!Move(ROCATTACH_CALL_SEEN, ROCATTACH_CALL_ARMED)) {
    (void)Move(ROCATTACH_CALL_STOPPING, ROCATTACH_CALL_ARMED);
  }
}

bool AwaitedCall::IsStopping() {
  return state() == ROCATTACH_CALL_STOPPING;
}

bool AwaitedCall::Disarm() {
  (void)Move(ROCATTACH_CALL_ARMED, ROCATTACH_CALL_SEEN);
  return !IsStopping();
}

}  // namespace rocattach
