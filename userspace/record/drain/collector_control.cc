#include "userspace/record/drain/collector_control.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "userspace/abi/atomics.h"
#include "userspace/base/clock.h"
#include "userspace/record/drain/convert.h"

namespace rocattach {
namespace {

using collector::LoadAcquire;

template <typename T>
T Load(const T* field) {
  return __atomic_load_n(field, __ATOMIC_RELAXED);
}

void FutexWake(uint32_t* word) {
  // Not FUTEX_PRIVATE: the waiter maps the same memfd in another process.
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Copies a text of the target exactly once, with '?' for unprintable characters.
std::string Printable(const char* from, size_t room) {
  std::string text(from, room);
  text.resize(strnlen(text.data(), room));
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
}

}  // namespace

void CollectorControl::AcknowledgeMapped() {
  __atomic_store_n(&control_->service_mapped, 1u, __ATOMIC_RELEASE);
  FutexWake(&control_->service_mapped);
}

void CollectorControl::SetRecording(bool recording) {
  __atomic_store_n(&control_->recording, recording ? 1u : 0u, __ATOMIC_RELAXED);
  Wake();
}

void CollectorControl::Wake() {
  __atomic_add_fetch(&control_->command, 1u, __ATOMIC_RELEASE);
  FutexWake(&control_->command);
}

uint64_t CollectorControl::baseline() const {
  if (__atomic_load_n(&control_->recording, __ATOMIC_RELAXED) == 0) return 0;
  return __atomic_load_n(&control_->recording_flags, __ATOMIC_RELAXED);
}

void CollectorControl::SetSampling(uint32_t sampling) {
  __atomic_store_n(&control_->sampling, sampling, __ATOMIC_RELAXED);
}

uint64_t CollectorControl::WritePlan(const rocattach_plan& image) {
  constexpr size_t kHead = offsetof(rocattach_plan, session_id);
  rocattach_plan* to = plan_;
  __atomic_store_n(&to->generation, plan_generation_ + 1, __ATOMIC_RELAXED);
  // The stores below must not become visible before the odd generation.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  memcpy(to, &image, offsetof(rocattach_plan, generation));
  memcpy(reinterpret_cast<uint8_t*>(to) + kHead,
         reinterpret_cast<const uint8_t*>(&image) + kHead,
         sizeof(rocattach_plan) - kHead);
  if (image.start_ns == 0) to->start_ns = BootNs();
  plan_generation_ += 2;
  __atomic_store_n(&to->generation, plan_generation_, __ATOMIC_RELEASE);
  Wake();
  return plan_generation_;
}

void CollectorControl::DecideKernels(uint32_t selection,
                                     absl::Span<const uint32_t> kernels,
                                     uint32_t decided) {
  rocattach_plan_selection& to = plan_->selections[selection];
  for (uint32_t kernel : kernels) {
    if (kernel >= ROCATTACH_PLAN_MAX_KERNELS) continue;
    __atomic_fetch_or(&to.kernels[kernel / 64], uint64_t{1} << (kernel % 64),
                      __ATOMIC_RELAXED);
  }
  __atomic_store_n(&to.kernels_decided, std::min(decided, ROCATTACH_PLAN_MAX_KERNELS),
                   __ATOMIC_RELEASE);
}

uint64_t CollectorControl::answered_generation() const {
  return LoadAcquire(&control_->plan_acked);
}

PlanAnswer CollectorControl::plan_answer() const {
  PlanAnswer answer;
  answer.generation = LoadAcquire(&control_->plan_acked);
  answer.error = Load(&control_->plan_error);
  answer.code = Load(&control_->plan_error_code);
  answer.counter = Load(&control_->plan_error_counter);
  answer.text = Printable(control_->plan_error_text, sizeof(control_->plan_error_text));
  return answer;
}

BackendFacts CollectorControl::backend() const {
  BackendFacts facts;
  facts.backend = LoadAcquire(&control_->backend);
  facts.reason = Load(&control_->backend_reason);
  facts.record_kinds = Load(&control_->record_kinds);
  facts.api_domains = Load(&control_->api_domains);
  facts.sdk_version = Load(&control_->sdk_version);
  facts.text = Printable(control_->backend_text, sizeof(control_->backend_text));
  return facts;
}

uint32_t CollectorControl::state() const {
  return LoadAcquire(&control_->state);
}
uint64_t CollectorControl::armed_ns() const {
  return Load(&control_->armed_ns);
}

bool CollectorControl::hears_of_init() const {
  const uint32_t entry = Load(&control_->entry);
  return entry == ROCATTACH_ENTRY_PATH_LIVE_TABLE || entry == ROCATTACH_ENTRY_PATH_LATE;
}

bool CollectorControl::entered_late() const {
  return Load(&control_->entry) == ROCATTACH_ENTRY_PATH_LATE;
}

uint32_t CollectorControl::init_status() const {
  return Load(&control_->init_status);
}

v1::Collector CollectorControl::Describe() const {
  rocattach_control copy;
  memcpy(&copy, control_, sizeof(copy));
  return CollectorToProto(copy);
}

std::string CollectorControl::text() const {
  return Printable(control_->text, sizeof(control_->text));
}

}  // namespace rocattach
