// Does what the service requests: which contexts run, and which plan decides.
#include "userspace/collector/sdk/backend.h"
#include "userspace/collector/sdk/ring_hold.h"

namespace rocattach::collector {
namespace {

constexpr uint32_t kCopyTickMsec = 20;
constexpr uint32_t kWakeTickMsec = 10;    // dispatches are in flight
constexpr uint32_t kWatchTickMsec = 200;  // they may be, at any time
constexpr uint32_t kStopTickMsec = 50;
constexpr uint32_t kReplayTickMsec = 50;
constexpr uint32_t kVariablesTickMsec = 100;
// A runtime that has not called OnLoad by then does not load HSA tools.
constexpr uint64_t kOnLoadTimeoutNs = 5'000'000'000;

uint16_t CopyFlags(bool baseline, bool selected, uint64_t generation) {
  uint32_t flags = baseline ? ROCATTACH_COPY_BASELINE : 0u;
  if (selected) {
    flags |= ROCATTACH_COPY_SELECTED | ROCATTACH_PLAN_TAG(generation) << 9;
  }
  return static_cast<uint16_t>(flags);
}

}  // namespace

// Stops everything; what is in flight is delivered as far as the SDK can.
void SdkBackend::StopAll() {
  EndPlan();
  dispatches_.SetBaseline(false);
  // Without tracing it would never be known when counting can be stopped.
  if (!counting_.on()) dispatches_service_.Switch(sdk_, false);
  copy_service_.Switch(0);
  copy_service_.Flush();
}

// Nothing is selected any more, and what was selected has been delivered, except for
// traced dispatches in flight. Tracing itself continues if something else needs it.
void SdkBackend::EndPlan() {
  EndSelection();
  counting_.Stop();
}

// The same without counting, which the next plan may need as well.
void SdkBackend::EndSelection() {
  process_->plans.Activate(nullptr);
  dispatches_.SetPasses(nullptr);
  samples_.Stop();
  for (SdkService& service : api_services_) service.Switch(sdk_, false);
  streams_service_.Switch(sdk_, false);
  SwitchMemory(0, 0);
  plan_kinds_ = 0;
  plan_generation_ = 0;
  replay_.Cancel();
}

PlanResult SdkBackend::CheckKinds(const rocattach_plan& plan) const {
  struct Kind {
    uint32_t bit;
    const char* name;
  };
  constexpr Kind kKinds[] = {{ROCATTACH_PLAN_RECORD_DISPATCHES, "dispatches"},
                             {ROCATTACH_PLAN_RECORD_COUNTERS, "hardware counters"},
                             {ROCATTACH_PLAN_RECORD_COPIES, "memory copies"},
                             {ROCATTACH_PLAN_RECORD_API, "API calls"},
                             {ROCATTACH_PLAN_RECORD_SAMPLES, "sampled counters"},
                             {ROCATTACH_PLAN_RECORD_MEMORY, "memory allocations"},
                             {ROCATTACH_PLAN_RECORD_SCRATCH, "scratch memory"},
                             {ROCATTACH_PLAN_RECORD_INSTANCES, "counters' instances"},
                             {ROCATTACH_PLAN_RECORD_ARGUMENTS, "arguments of calls"}};
  constexpr const char* kDomains[] = {"HSA", "HIP", "marker", "RCCL"};
  static_assert(sizeof(kDomains) / sizeof(kDomains[0]) == ROCATTACH_PLAN_API_DOMAINS);
  for (const Kind& kind : kKinds) {
    if ((plan.record_kinds & kind.bit & ~record_kinds_) == 0) continue;
    return PlanResult::Error(ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0,
                             "%s were not configured when this process started%s%s",
                             kind.name, text_[0] != '\0' ? ": " : "", text_);
  }
  for (uint32_t d = 0; d < ROCATTACH_PLAN_API_DOMAINS; ++d) {
    if ((plan.record_kinds & ROCATTACH_PLAN_RECORD_API) == 0 ||
        plan.api[d].enabled == 0 || (api_domains_ >> d & 1) != 0) {
      continue;
    }
    return PlanResult::Error(ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0,
                             "this SDK does not trace %s calls", kDomains[d]);
  }
  return PlanResult();
}

PlanResult SdkBackend::StartPlan(const PlanState* state) {
  const rocattach_plan& plan = state->plan;
  const uint32_t kinds = plan.record_kinds;
  PlanResult result = CheckKinds(plan);
  if (!result.ok()) return result;
  const SdkPassTable* table = nullptr;
  if ((kinds & (ROCATTACH_PLAN_RECORD_COUNTERS | ROCATTACH_PLAN_RECORD_SAMPLES)) != 0) {
    table = configs_.Build(
        *state, &result,
        &process_->memory.plan()->selections[ROCATTACH_PLAN_SELECTION_COUNTERS]);
    if (table == nullptr) return result;
  }
  // Until the plan is active: the first dispatch after the hold is counted.
  RingHold hold(&g_ring_gate);
  if ((kinds & ROCATTACH_PLAN_RECORD_COUNTERS) != 0) {
    const PlanResult started = counting_.Start(&hold);
    if (!started.ok()) return started;
  } else {
    counting_.Stop();
  }
  if ((kinds & ROCATTACH_PLAN_RECORD_DISPATCHES) != 0) {
    rocattach_sdk_status status = dispatches_service_.Switch(sdk_, true);
    if (!dispatches_service_.on) {
      return SdkStartError(sdk_, "tracing of dispatches", status);
    }
  }
  if ((kinds & ROCATTACH_PLAN_RECORD_COPIES) != 0) {
    const bool baseline = process_->Baseline(ROCATTACH_RECORDING_COPIES);
    rocattach_sdk_status status =
        copy_service_.Switch(CopyFlags(baseline, /*selected=*/true, state->generation));
    if (!copy_service_.on()) return SdkStartError(sdk_, "tracing of copies", status);
  }
  for (uint32_t d = 0; d < ROCATTACH_PLAN_API_DOMAINS; ++d) {
    bool wanted = (kinds & ROCATTACH_PLAN_RECORD_API) != 0 && plan.api[d].enabled != 0;
    rocattach_sdk_status status = api_services_[d].Switch(sdk_, wanted);
    if (api_services_[d].on != wanted) {
      return SdkStartError(sdk_, "tracing of calls", status);
    }
    // Libraries that registered before the SDK was loaded are not traced until their
    // tables are passed to it.
    if (wanted && d != ROCATTACH_PLAN_API_HSA) replay_.Request();
  }
  // Without it operations are recorded too, but not their streams.
  constexpr uint32_t kOfStreams = ROCATTACH_PLAN_RECORD_DISPATCHES |
                                  ROCATTACH_PLAN_RECORD_COUNTERS |
                                  ROCATTACH_PLAN_RECORD_COPIES;
  if (streams_.configured() &&
      ((kinds & kOfStreams) != 0 || api_services_[ROCATTACH_PLAN_API_HIP].on)) {
    streams_service_.Switch(sdk_, true);
    if (!streams_.seen()) replay_.Request();
  }
  if (const PlanResult memory = SwitchMemory(kinds, state->generation); !memory.ok()) {
    return memory;
  }
  if ((kinds & ROCATTACH_PLAN_RECORD_SAMPLES) != 0) {
    const PlanResult started = samples_.Start(state, table);
    if (!started.ok()) return started;
  }
  plan_kinds_ = kinds;
  plan_generation_ = state->generation;
  dispatches_.SetPasses(table);
  process_->plans.Activate(kinds != 0 ? state : nullptr);
  hold.Describe(&result);
  return result;
}

PlanResult SdkBackend::SwitchMemory(uint32_t kinds, uint64_t generation) {
  const auto change = [&](uint32_t kind, SdkService* service, SdkMemoryTrace* trace) {
    const bool wanted = (kinds & kind) != 0;
    rocattach_sdk_status status = ROCATTACH_SDK_STATUS_SUCCESS;
    if (!wanted && service->on) service->Switch(sdk_, false);
    // What an earlier plan asked for keeps its tag.
    trace->Flush();
    if (!wanted) return status;
    trace->SetPlan(generation);
    status = service->Switch(sdk_, true);
    return service->on ? rocattach_sdk_status{ROCATTACH_SDK_STATUS_SUCCESS} : status;
  };
  rocattach_sdk_status status =
      change(ROCATTACH_PLAN_RECORD_MEMORY, &memory_service_, &memory_);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
    return SdkStartError(sdk_, "tracing of memory allocations", status);
  }
  status = change(ROCATTACH_PLAN_RECORD_SCRATCH, &scratch_service_, &scratch_);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
    return SdkStartError(sdk_, "tracing of scratch memory", status);
  }
  return PlanResult();
}

void SdkBackend::TakePlan() {
  PlanSet& plans = process_->plans;
  if (!plans.Pending()) return;
  EndSelection();
  // The old plan's copies may still be in the buffer.
  copy_service_.Flush();
  PlanResult result;
  PlanState* state = plans.Prepare(&result);
  // It is being written again: the writer wakes us afterwards.
  if (state == nullptr && result.ok()) return;
  if (state != nullptr) result = StartPlan(state);
  if (!result.ok()) EndPlan();
  ApplyBaseline();
  plans.Answer(plans.pending_generation(), result);
}

void SdkBackend::ApplyBaseline() {
  Process& p = *process_;
  bool dispatches = p.Baseline(ROCATTACH_RECORDING_DISPATCHES);
  bool copies = p.Baseline(ROCATTACH_RECORDING_COPIES);
  if (!dispatches) dispatches_.SetBaseline(false);
  // Where counting may have to be switched, it must be known what is in flight.
  dispatches_service_.Switch(sdk_,
                             dispatches || CanCount() ||
                                 (plan_kinds_ & ROCATTACH_PLAN_RECORD_DISPATCHES) != 0);
  dispatches_.SetBaseline(dispatches && dispatches_service_.on);
  bool selected = (plan_kinds_ & ROCATTACH_PLAN_RECORD_COPIES) != 0;
  copy_service_.Switch(CopyFlags(copies, selected, plan_generation_));
}

void SdkBackend::Update() {
  TinyLockHolder hold(lock_);
  Process& p = *process_;
  bool ended = LoadAcquire(&finalized_) != 0;
  if (ended || !attached_) {
    // Before the first attach a plan waits for it.
    if (p.plans.Pending() && (ended || detached_)) {
      p.plans.Refuse(
          PlanResult::Error(ROCATTACH_PLAN_ERROR_ENDED, 0,
                            ended ? "rocprofiler-sdk has ended in this process"
                                  : "this process is detached from rocprofiler-sdk"));
    }
    return;
  }
  if (LoadAcquire(&p.phase) != kPhaseArmed) return;
  if (LoadRelaxed(&p.self_stopped) != 0) {
    // The plan is unchanged when recording resumes.
    if (plan_generation_ != 0) p.plans.Reconsider();
    StopAll();
    return;
  }
  TakePlan();
  ApplyBaseline();
}

// OnLoad removes our variables; if it is never called, children must not inherit them
// forever. True while they are set.
bool SdkBackend::TakeBackVariables() {
  Process& p = *process_;
  if (!p.environment.installed() || LoadAcquire(&p.phase) != kPhaseArmed) return false;
  uint64_t armed_ns = LoadRelaxed(&p.memory.control()->armed_ns);
  if (BootNs() < armed_ns + kOnLoadTimeoutNs) return true;
  p.environment.Restore();
  return false;
}

uint64_t SdkBackend::Tick(RingHandle* ring) {
  if (replay_.pending()) replay_.Try(process_);
  {
    // The plan that samples is about to end.
    TinyLockHolder hold(lock_);
    if (process_->plans.Pending() && LoadAcquire(&finalized_) == 0 && attached_) {
      samples_.Finish(ring);
    }
  }
  Update();
  TinyLockHolder hold(lock_);
  if (LoadAcquire(&finalized_) != 0 || !attached_) return 0;
  uint64_t wait_ns = UINT64_MAX;
  auto sooner = [&](uint64_t ns) {
    if (ns < wait_ns) wait_ns = ns;
  };
  api_.set_own_thread(ring->tid());
  if (copy_service_.Tick(ring)) sooner(uint64_t{kCopyTickMsec} * 1'000'000);
  if (dispatches_service_.on) {
    const bool in_flight = g_ring_gate.Unfinished() != 0;
    if (in_flight) g_ring_gate.WakeRuntime();
    sooner(uint64_t{in_flight ? kWakeTickMsec : kWatchTickMsec} * 1'000'000);
  }
  if (memory_service_.on || scratch_service_.on) {
    memory_.Flush();
    scratch_.Flush();
    sooner(uint64_t{kCopyTickMsec} * 1'000'000);
  }
  if (counting_.retries()) {
    counting_.Stop();
    sooner(uint64_t{kStopTickMsec} * 1'000'000);
  }
  if (TakeBackVariables()) sooner(uint64_t{kVariablesTickMsec} * 1'000'000);
  if (replay_.pending()) sooner(uint64_t{kReplayTickMsec} * 1'000'000);
  uint64_t next = samples_.Tick(BootNs(), ring);
  if (next != 0) {
    uint64_t now = BootNs();
    sooner(next > now ? next - now : 1);
  }
  return wait_ns == UINT64_MAX ? 0 : wait_ns;
}

}  // namespace rocattach::collector
