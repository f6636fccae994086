#include "userspace/collector/sdk/copy_service.h"

#include <time.h>

#include "userspace/collector/hsa/ring_gate.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kHoldNs = 100'000'000;
// Copies are lost if none is delivered for this long after the end of the service.
constexpr uint64_t kLostNs = 2'000'000'000;
constexpr uint64_t kExitNs = 200'000'000;

}  // namespace

rocattach_sdk_status SdkCopyService::Configure(const rocattach_sdk_functions* sdk,
                                               const SdkAgents* agents, Memory* memory,
                                               RingSet* rings,
                                               uint64_t* next_correlation,
                                               const SdkStreams* streams) {
  sdk_ = sdk;
  rings_ = rings;
  const rocattach_sdk_status status = sdk->create_context(&service_.context);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) return status;
  return copies_.Configure(sdk, service_.context, agents, memory, rings,
                           next_correlation, streams);
}

rocattach_sdk_status SdkCopyService::Switch(uint16_t flags) {
  if (!copies_.configured() || flags == wanted_) return ROCATTACH_SDK_STATUS_SUCCESS;
  // Earlier copies keep their earlier flags, and so do copies that are under
  // way when the service ends.
  copies_.Flush();
  const bool on = flags != 0;
  if (on) copies_.SetFlags(flags);
  rocattach_sdk_status status = ROCATTACH_SDK_STATUS_SUCCESS;
  if (on != service_.on) {
    const bool held = g_ring_gate.HoldCopies(kHoldNs);
    if (!held) uncertain_ += g_ring_gate.copies_inside();
    status = service_.Switch(*sdk_, on);
    g_ring_gate.CountCopies(service_.on);
    if (held) g_ring_gate.OpenCopies();
    progress_ns_ = BootNs();
  }
  wanted_ = service_.on ? flags : uint16_t{0};
  return status;
}

bool SdkCopyService::Tick(RingHandle* ring) {
  const uint64_t submitted = g_ring_gate.copies_submitted();
  if (!service_.on && copies_.Missing(submitted, uncertain_) == 0) return false;
  copies_.Flush();
  const uint64_t missing = copies_.Missing(submitted, uncertain_);
  if (missing != 0) g_ring_gate.WakeRuntime();
  if (service_.on) return true;
  const uint64_t now = BootNs();
  if (missing != missing_) progress_ns_ = now;
  missing_ = missing;
  if (missing != 0 && now > progress_ns_ + kLostNs) {
    copies_.WriteOff(missing, ring);
    return false;
  }
  return missing != 0;
}

void SdkCopyService::SettleAtExit() {
  const uint64_t end_ns = BootNs() + kExitNs;
  for (;;) {
    copies_.Flush();
    const uint64_t missing =
        copies_.Missing(g_ring_gate.copies_submitted(), uncertain_);
    if (missing == 0) return;
    if (BootNs() >= end_ns) {
      RingHandle ring = rings_->Mine();
      return copies_.WriteOff(missing, &ring);
    }
    timespec nap = {0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace rocattach::collector
