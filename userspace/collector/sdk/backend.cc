#include "userspace/collector/sdk/backend.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "userspace/collector/hsa/live_table.h"
#include "userspace/collector/sdk/accumulators.h"
#include "userspace/collector/sdk/ring_hold.h"

extern "C" int on_exit(void (*function)(int status, void* argument), void* argument);

namespace rocattach::collector {
namespace {

constexpr uint32_t kOldestVersion = 10000;  // SDK 1.0, ROCm 7.0; see abi.h
constexpr uint32_t kExitPatienceMsec = 200;

// For the handlers around fork(), which get no user data and are never removed.
SdkBackend* g_forking = nullptr;

void HandleForks(SdkBackend* backend) {
  const bool first = g_forking == nullptr;
  g_forking = backend;
  if (!first) return;
  pthread_atfork([] { g_forking->BeforeFork(); }, [] { g_forking->AfterFork(); },
                 [] { g_forking->AfterForkInChild(); });
}

}  // namespace

// The SDK's callbacks for events. They may still be called shortly after everything has
// been stopped, and in forked children.
void SdkBackend::OnCodeObject(rocattach_sdk_callback_record record,
                              rocattach_sdk_user_data*, void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  // Also before the collector is armed: an SDK that is attached late first reports what
  // it finds.
  if (self->process_->guard.Ours()) self->code_objects_.OnCallback(record);
}

void SdkBackend::OnDispatchTrace(rocattach_sdk_callback_record record,
                                 rocattach_sdk_user_data* user_data,
                                 void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  if (self->Live()) self->dispatches_.OnTrace(record, user_data);
}

void SdkBackend::OnDispatch(rocattach_sdk_dispatch_data dispatch,
                            rocattach_sdk_counter_config_id* config,
                            rocattach_sdk_user_data* user_data, void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  if (self->Live()) self->dispatches_.OnEnqueue(dispatch, config, user_data);
}

void SdkBackend::OnDispatchValues(rocattach_sdk_dispatch_data dispatch,
                                  rocattach_sdk_counter_record* records, size_t count,
                                  rocattach_sdk_user_data user_data,
                                  void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  if (self->Live()) self->dispatches_.OnValues(dispatch, records, count, user_data);
}

void SdkBackend::OnApiCall(rocattach_sdk_callback_record record,
                           rocattach_sdk_user_data* user_data, void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  if (self->Live()) self->api_.OnCall(record, user_data);
}

void SdkBackend::OnStream(rocattach_sdk_callback_record record,
                          rocattach_sdk_user_data* user_data, void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  if (self->Live()) self->streams_.OnCallback(record, user_data);
}

void SdkBackend::OnKeptCall(void* self_pointer, bool init, uint64_t begin_ns) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  if (self->Live()) self->api_.OnKeptCall(init, begin_ns);
}

bool SdkBackend::Fail(rocattach_backend_reason reason, const char* format, ...) {
  reason_ = reason;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text_, sizeof(text_), format, arguments);
  va_end(arguments);
  return false;
}

rocattach_sdk_configure_result* SdkBackend::Configure(uint32_t version,
                                                      uint32_t priority,
                                                      const void* caller,
                                                      rocattach_sdk_client_id* client) {
  uint32_t phase = LoadAcquire(&process_->phase);
  if (!process_->guard.Ours() || in_force() || client == nullptr ||
      process_->config.backend < ROCATTACH_BACKEND_SDK ||
      (phase != kPhaseLoaded && phase != kPhaseUnloaded)) {
    return nullptr;
  }
  called_ = true;
  first_ = priority == 0;
  version_ = version;
  if (version < kOldestVersion) {
    Fail(ROCATTACH_BACKEND_REASON_SDK_VERSION,
         "rocprofiler-sdk %u.%u.%u is older than 1.0 and cannot be used",
         version / 10000, version / 100 % 100, version % 100);
    return nullptr;
  }
  if (const char* missing = LoadSdkFunctions(caller, &sdk_)) {
    Fail(ROCATTACH_BACKEND_REASON_SDK_INCOMPLETE, "rocprofiler-sdk has no %s", missing);
    return nullptr;
  }
  attached_ = process_->config.backend != ROCATTACH_BACKEND_SDK_ATTACH;
  StoreRelaxed(&process_->memory.control()->by_attacher, attached_ ? 0u : 1u);
  client->name = "rocattach";
  result_ = {sizeof(result_), &OnInitialize, &OnFinalize, this};
  return &result_;
}

rocattach_sdk_configure_attach_result* SdkBackend::ConfigureAttach() {
  if (!called_) return nullptr;
  attach_result_ = {sizeof(attach_result_), &OnAttach, &OnDetach, this};
  return &attach_result_;
}

int SdkBackend::OnInitialize(rocattach_sdk_client_finalize_fn, void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  ErrnoKeeper keep_errno;
  // If initialising failed, the SDK discards what was created so far.
  return self->Initialize() ? 0 : 1;
}

bool SdkBackend::Initialize() {
  Process& p = *process_;
  rocattach_sdk_status status = agents_.Load(&sdk_, &p.dictionary);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
    return Fail(ROCATTACH_BACKEND_REASON_SDK_ERROR,
                "the SDK does not list its agents: %s", StatusName(sdk_, status));
  }
  code_objects_.Init(&agents_, &p.dictionary);
  configs_.Init(&sdk_, &agents_, &p.plans);
  counting_.Init(&sdk_, &p.plans);
  samples_.Init({&sdk_, &agents_, &configs_, &p.plans, &p.rings});
  api_.Init(&p.plans, &p.rings);
  int error = dispatches_.Init(
      &p.memory,
      {&sdk_, &p.plans, &agents_, &configs_, &p.dictionary, &p.rings,
       code_objects_.kernels(), &next_correlation_, &p.memory.control()->hook_ns_total,
       &p.memory.control()->other_dropped, &g_ring_gate, &streams_,
       &p.memory.control()->sampling});
  if (error != 0) return Fail(ROCATTACH_BACKEND_REASON_SDK_ERROR, "out of memory");
  uint32_t wanted = p.config.record_kinds != 0 ? p.config.record_kinds : UINT32_MAX;
  // Our definitions would replace those of a tool that came before us.
  constexpr uint32_t kCounts =
      ROCATTACH_PLAN_RECORD_COUNTERS | ROCATTACH_PLAN_RECORD_SAMPLES;
  if (first_ && (wanted & kCounts) != 0) DefineAccumulators(sdk_, agents_);
  if (!ConfigureServices(wanted)) return false;
  sdk_.start_context(names_);
  rocattach_control* control = p.memory.control();
  reason_ = ROCATTACH_BACKEND_REASON_REQUESTED;
  StoreRelaxed(&control->record_kinds, record_kinds_);
  StoreRelaxed(&control->api_domains, api_domains_);
  StoreRelaxed(&control->sdk_version, version_);
  p.PublishBackend(ROCATTACH_BACKEND_SDK, reason_, text_);
  StoreRelease(&in_force_, 1u);
  return true;
}

bool SdkBackend::ConfigureServices(uint32_t wanted) {
  rocattach_sdk_status status = sdk_.create_context(&names_);
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
    status = sdk_.configure_callback_tracing(names_, ROCATTACH_SDK_CALLBACK_CODE_OBJECT,
                                             nullptr, 0, &OnCodeObject, this);
  }
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
    status = sdk_.at_intercept_table(&OnHsaTable, ROCATTACH_SDK_TABLE_HSA, this);
  }
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
    return Fail(ROCATTACH_BACKEND_REASON_SDK_ERROR, "the SDK refuses a service: %s",
                StatusName(sdk_, status));
  }
  if (!ConfigureDispatches(wanted)) return false;
  if ((wanted & ROCATTACH_PLAN_RECORD_COPIES) != 0) {
    if (copy_service_.Configure(&sdk_, &agents_, &process_->memory, &process_->rings,
                                &next_correlation_,
                                &streams_) == ROCATTACH_SDK_STATUS_SUCCESS) {
      record_kinds_ |= ROCATTACH_PLAN_RECORD_COPIES;
    }
  }
  if ((wanted & ROCATTACH_PLAN_RECORD_SAMPLES) != 0 && samples_.Configure()) {
    record_kinds_ |= ROCATTACH_PLAN_RECORD_SAMPLES;
  }
  if ((wanted & ROCATTACH_PLAN_RECORD_API) != 0) ConfigureApi(wanted);
  ConfigureMemory(wanted);
  ConfigureStreams();
  return true;
}

// Newer than the rest; without it streams are not known.
void SdkBackend::ConfigureStreams() {
  rocattach_sdk_context_id& context = streams_service_.context;
  if (version_ < SdkStreams::kOldestVersion ||
      sdk_.create_context(&context) != ROCATTACH_SDK_STATUS_SUCCESS) {
    return;
  }
  const bool copies = (record_kinds_ & ROCATTACH_PLAN_RECORD_COPIES) != 0;
  streams_.Configure(sdk_, version_, context,
                     copies ? copy_service_.context() : rocattach_sdk_context_id{0},
                     &OnStream, this);
}

// Newer than the rest; without it everything else works.
void SdkBackend::ConfigureMemory(uint32_t wanted) {
  const SdkMemoryTrace::Parts parts = {&sdk_, &agents_, &dispatches_, &process_->rings};
  const auto configure = [&](uint32_t kind, SdkService* service, SdkMemoryTrace* trace,
                             rocattach_sdk_buffer_kind buffer_kind) {
    if ((wanted & kind) != 0 &&
        sdk_.create_context(&service->context) == ROCATTACH_SDK_STATUS_SUCCESS &&
        trace->Configure(parts, service->context, buffer_kind) ==
            ROCATTACH_SDK_STATUS_SUCCESS) {
      record_kinds_ |= kind;
    }
  };
  configure(ROCATTACH_PLAN_RECORD_MEMORY, &memory_service_, &memory_,
            ROCATTACH_SDK_BUFFER_MEMORY_ALLOCATION);
  configure(ROCATTACH_PLAN_RECORD_SCRATCH, &scratch_service_, &scratch_,
            ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY);
}

// Without these the SDK would be useless.
bool SdkBackend::ConfigureDispatches(uint32_t wanted) {
  rocattach_sdk_context_id& traced = dispatches_service_.context;
  rocattach_sdk_status status = sdk_.create_context(&traced);
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
    status =
        sdk_.configure_callback_tracing(traced, ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH,
                                        nullptr, 0, &OnDispatchTrace, this);
  }
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
    return Fail(ROCATTACH_BACKEND_REASON_SDK_ERROR,
                "the SDK refuses to trace dispatches: %s", StatusName(sdk_, status));
  }
  record_kinds_ |= ROCATTACH_PLAN_RECORD_DISPATCHES;
  if ((wanted & ROCATTACH_PLAN_RECORD_COUNTERS) == 0) return true;
  rocattach_sdk_context_id& counted = counting_.context();
  status = sdk_.create_context(&counted);
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
    status = sdk_.configure_callback_dispatch_counting(counted, &OnDispatch, this,
                                                       &OnDispatchValues, this);
  }
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) {
    record_kinds_ |= ROCATTACH_PLAN_RECORD_COUNTERS;
    if (sdk_.query_record_dimension_position != nullptr) {
      record_kinds_ |= wanted & ROCATTACH_PLAN_RECORD_INSTANCES;
    }
  } else {
    snprintf(text_, sizeof(text_), "the SDK refuses to count dispatches: %s",
             StatusName(sdk_, status));
  }
  return true;
}

void SdkBackend::ConfigureApi(uint32_t wanted) {
  for (uint32_t d = 0; d < ROCATTACH_PLAN_API_DOMAINS; ++d) {
    rocattach_sdk_context_id& context = api_services_[d].context;
    if (sdk_.create_context(&context) != ROCATTACH_SDK_STATUS_SUCCESS) continue;
    if (!api_.Configure(&sdk_, context, static_cast<rocattach_plan_api>(d),
                        &process_->dictionary, &OnApiCall, this)) {
      continue;
    }
    record_kinds_ |= ROCATTACH_PLAN_RECORD_API;
    if (sdk_.iterate_arguments != nullptr) {
      record_kinds_ |= wanted & ROCATTACH_PLAN_RECORD_ARGUMENTS;
    }
    api_domains_ |= 1u << d;
  }
}

void SdkBackend::OnHsaTable(int32_t, uint64_t, uint64_t, void** tables, uint64_t count,
                            void* self_pointer) {
  ErrnoKeeper keep_errno;
  auto* self = static_cast<SdkBackend*>(self_pointer);
  if (!self->process_->guard.Ours()) return;
  self->InstallGate(tables, count);
  self->Arm();
}

// The SDK has put its functions into the table: ours come on top.
void SdkBackend::InstallGate(void** tables, uint64_t count) {
  Process& p = *process_;
  const bool from_start = p.config.backend != ROCATTACH_BACKEND_SDK_ATTACH;
  g_ring_gate.OnKeptCall(&OnKeptCall, this);
  const char* why = "the SDK presents no API table";
  LiveTables found;
  if (count != 0) why = ProveTables(static_cast<ApiTableRoot*>(tables[0]), &found);
  if (why == nullptr) why = g_ring_gate.Install(found.root, found.slots, from_start);
  HandleForks(this);
  if (why == nullptr || !CanCount()) return;
  // Counting could not be switched without the risk that the program hangs.
  record_kinds_ &= ~ROCATTACH_PLAN_RECORD_COUNTERS;
  Fail(ROCATTACH_BACKEND_REASON_REQUESTED, "no counters of dispatches: %s", why);
  StoreRelaxed(&p.memory.control()->record_kinds, record_kinds_);
  p.PublishBackend(ROCATTACH_BACKEND_SDK, reason_, text_);
}

// On the thread that initialises the runtime (or attaches), once the SDK has its table.
void SdkBackend::Arm() {
  Process& p = *process_;
  if (!p.guard.Ours()) return;
  {
    TinyLockHolder hold(p.start_lock);
    uint32_t phase = LoadAcquire(&p.phase);
    if (phase != kPhaseLoaded && phase != kPhaseUnloaded) return;
    // Without the worker, nothing is recorded.
    if (!p.worker.running() && p.worker.Start() != 0) return;
    if (phase == kPhaseLoaded) p.RegisterEnd();
    StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseArmed));
    StoreRelaxed(&p.memory.control()->entry,
                 static_cast<uint32_t>(ROCATTACH_ENTRY_PATH_SDK));
    StoreRelaxed(&p.memory.control()->armed_ns, BootNs());
    p.memory.SetState(ROCATTACH_STATE_ARMED);
    // If the HSA tools are loaded after this, and we with them, OnLoad does it.
    if (!p.environment.tools_beside_sdk()) p.environment.Restore();
  }
  p.WaitForService();
  Update();
  p.worker.Wake();
}

int SdkBackend::OnAttach(rocattach_sdk_client_detach_fn, rocattach_sdk_context_id*,
                         uint64_t, void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  ErrnoKeeper keep_errno;
  {
    TinyLockHolder hold(self->lock_);
    self->attached_ = true;
    self->detached_ = false;
    // A detach has stopped this context as well.
    self->sdk_.start_context(self->names_);
    self->process_->plans.Reconsider();
  }
  self->process_->environment.Restore();
  self->Update();
  self->process_->worker.Wake();
  return 0;
}

void SdkBackend::OnDetach(void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  ErrnoKeeper keep_errno;
  TinyLockHolder hold(self->lock_);
  self->StopAll();
  self->attached_ = false;
  self->detached_ = true;
}

void SdkBackend::OnFinalize(void* self_pointer) {
  auto* self = static_cast<SdkBackend*>(self_pointer);
  ErrnoKeeper keep_errno;
  if (self->process_->guard.Ours()) self->End();
}

void SdkBackend::RuntimeGone() {
  TinyLockHolder hold(lock_);
  StopAll();
  process_->plans.Reconsider();
}

void SdkBackend::End() {
  if (LoadAcquire(&finalized_) != 0) return;
  // A worker that is starting or stopping contexts finishes that first. If it hangs, we
  // cannot call the SDK ourselves.
  g_ring_gate.Abandon(true);
  bool alone = lock_.LockFor(kExitPatienceMsec);
  g_ring_gate.Abandon(false);
  StoreRelease(&finalized_, 1u);
  if (alone) {
    counting_.StopAtExit();
    StopAll();
    copy_service_.SettleAtExit();
  }
  dispatches_.PublishRest();
  if (alone) lock_.Unlock();
}

// Carries out the service's requests: which contexts run, and which plan is active.

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
  // Without tracing we would never know when counting can be stopped.
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
  // Held until the plan is active: the first dispatch after the hold is counted.
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
  // Without this service operations are recorded too, but not their streams.
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
    // Records that an earlier plan asked for keep that plan's tag.
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

void SdkBackend::ApplyPlan() {
  PlanSet& plans = process_->plans;
  if (!plans.Pending()) return;
  EndSelection();
  // The old plan's copies may still be in the buffer.
  copy_service_.Flush();
  PlanResult result;
  PlanState* state = plans.Prepare(&result);
  // The plan is being rewritten: the writer wakes us afterwards.
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
  // If counting may have to be switched, we must know which dispatches are in flight.
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
    // Recording resumes with the same plan, so it must be applied again then.
    if (plan_generation_ != 0) p.plans.Reconsider();
    StopAll();
    return;
  }
  ApplyPlan();
  ApplyBaseline();
}

// OnLoad removes our variables; if it is never called, children must not inherit them
// forever. True while they are set.
bool SdkBackend::UnsetVariables() {
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
  if (UnsetVariables()) sooner(uint64_t{kVariablesTickMsec} * 1'000'000);
  if (replay_.pending()) sooner(uint64_t{kReplayTickMsec} * 1'000'000);
  uint64_t next = samples_.Tick(BootNs(), ring);
  if (next != 0) {
    uint64_t now = BootNs();
    sooner(next > now ? next - now : 1);
  }
  return wait_ns == UINT64_MAX ? 0 : wait_ns;
}

// The SDK backend's handling of fork().

namespace {

constexpr uint32_t kForkPatienceMsec = 2'000;  // for a switch in progress

}  // namespace

void SdkBackend::BeforeFork() {
  if (!Live() || !CanCount()) return;
  ErrnoKeeper keep_errno;
  const bool alone = lock_.LockFor(kForkPatienceMsec);
  counting_.SaveStateForFork();
  if (!alone) return;
  forking_ = static_cast<uint32_t>(syscall(SYS_gettid));
  if (LoadAcquire(&finalized_) == 0) counting_.PauseForFork();
}

void SdkBackend::AfterFork() {
  if (forking_ != static_cast<uint32_t>(syscall(SYS_gettid))) return;
  ErrnoKeeper keep_errno;
  counting_.ResumeAfterFork();
  forking_ = 0;
  lock_.Unlock();
}

// If counting could not be stopped, the program's exit handlers from before the fork
// are skipped in the child, and with them the SDK's, which would never return.
void SdkBackend::AfterForkInChild() {
  g_ring_gate.StartAnewInChild();
  if (!counting_.on_at_fork()) return;
  on_exit(
      [](int status, void*) {
        fflush(nullptr);
        _exit(status);
      },
      nullptr);
}

}  // namespace rocattach::collector
