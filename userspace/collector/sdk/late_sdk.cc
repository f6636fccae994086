#include "userspace/collector/sdk/late_sdk.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/sdk/accumulators.h"

// As in functions.cc: up to glibc 2.33 only some programs have these.
extern "C" {
__attribute__((weak)) void* dlopen(const char* file, int mode) noexcept;
__attribute__((weak)) void* dlsym(void* handle, const char* name) noexcept;
__attribute__((weak)) char* dlerror() noexcept;
}

namespace rocattach::collector {
namespace {

// The first version that makes rocprofiler-register pass the tables again.
constexpr uint32_t kOldestVersion = 10300;
constexpr uint32_t kExitPatienceMsec = 200;
// The SDK's initialisation needs a large stack.
constexpr size_t kStackBytes = 8 << 20;
// More than the time from OnLoad to the end of hsa_init.
constexpr uint64_t kSettledNs = 500'000'000;

// The object for OnConfigure, to which the SDK passes no user data.
LateSdk* g_configuring = nullptr;

bool StartThread(void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // The application's signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, argument);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

}  // namespace

bool LateSdk::Fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text_, sizeof(text_), format, arguments);
  va_end(arguments);
  return false;
}

bool LateSdk::Start(const PlanState* state, PlanResult* result) {
  if (LoadAcquire(&state_) == kLoading) return false;
  // Inside hsa_init, or soon after it, the runtime may be only partly initialised.
  const uint64_t armed_ns = LoadRelaxed(&process_->memory.control()->armed_ns);
  const bool settled = BootNs() >= armed_ns + kSettledNs;
  StoreRelaxed(&retry_ns_, settled ? 0 : armed_ns + kSettledNs);
  if (!settled) return false;
  if (LoadAcquire(&state_) == kNone) {
    memcpy(path_, state->plan.late_sdk, sizeof(path_));
    awaited_generation_ = state->generation;
    if (StartLoading()) return false;
  }
  TinyLockHolder hold(lock_);
  if (LoadAcquire(&state_) == kFailed) {
    *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0,
                                "rocprofiler-sdk was not added: %s", text_);
    return true;
  }
  if (LoadAcquire(&finalized_) != 0) {
    *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_ENDED, 0,
                                "rocprofiler-sdk has ended in this process");
    return true;
  }
  *result = StartServices(state);
  return true;
}

PlanResult LateSdk::StartServices(const PlanState* state) {
  const uint32_t kinds = state->plan.record_kinds;
  if ((kinds & ROCATTACH_PLAN_RECORD_API) != 0) {
    const PlanResult started = StartApi(state->plan);
    if (!started.ok()) {
      StopApi();
      return started;
    }
  }
  if ((kinds & ROCATTACH_PLAN_RECORD_SAMPLES) == 0) return PlanResult();
  PlanResult result;
  if (!can_sample_) {
    result = PlanResult::Error(ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0,
                               "this rocprofiler-sdk has no device counting");
  } else if (const SdkPassTable* table =
                 configs_.Build(*state, &result,
                                &process_->memory.plan()
                                     ->selections[ROCATTACH_PLAN_SELECTION_COUNTERS])) {
    result = samples_.Start(state, table);
  }
  if (!result.ok()) StopApi();
  return result;
}

PlanResult LateSdk::StartApi(const rocattach_plan& plan) {
  constexpr const char* kDomains[] = {"HSA", "HIP", "marker", "RCCL"};
  static_assert(sizeof(kDomains) / sizeof(kDomains[0]) == ROCATTACH_PLAN_API_DOMAINS);
  for (uint32_t d = 0; d < ROCATTACH_PLAN_API_DOMAINS; ++d) {
    ApiService& service = api_services_[d];
    if (plan.api[d].enabled == 0) continue;
    if (!service.configured) {
      return PlanResult::Error(
          ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0,
          "rocprofiler-sdk, added to a running process, does not trace %s calls",
          kDomains[d]);
    }
    const rocattach_sdk_status status = sdk_.start_context(service.context);
    if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
      return PlanResult::Error(PlanErrorOf(status), status,
                               "tracing of %s calls does not start: %s", kDomains[d],
                               StatusName(sdk_, status));
    }
    service.on = true;
  }
  return PlanResult();
}

bool LateSdk::StopApi() {
  bool any = false;
  for (ApiService& service : api_services_) {
    if (!service.on) continue;
    sdk_.stop_context(service.context);
    service.on = false;
    any = true;
  }
  return any;
}

void LateSdk::Finish(RingHandle* ring) {
  if (LoadAcquire(&state_) != kReady || LoadAcquire(&finalized_) != 0) return;
  TinyLockHolder hold(lock_);
  StopApi();
  if (ring != nullptr) {
    samples_.Finish(ring);
  } else {
    samples_.Stop();
  }
}

uint64_t LateSdk::Tick(RingHandle* ring) {
  if (const uint64_t retry_ns = LoadRelaxed(&retry_ns_); retry_ns != 0) {
    const uint64_t now = BootNs();
    if (retry_ns > now) return retry_ns - now;
    StoreRelaxed(&retry_ns_, uint64_t{0});  // the plan may have been withdrawn
    return 1;
  }
  if (LoadAcquire(&state_) != kReady) return 0;
  TinyLockHolder hold(lock_);
  if (LoadAcquire(&finalized_) != 0) return 0;
  api_.set_own_thread(ring->tid());
  const uint64_t next = samples_.Tick(BootNs(), ring);
  if (next == 0) return 0;
  const uint64_t now = BootNs();
  return next > now ? next - now : 1;
}

bool LateSdk::Pause() {
  if (LoadAcquire(&state_) != kReady || LoadAcquire(&finalized_) != 0) return false;
  TinyLockHolder hold(lock_);
  const bool traced = StopApi();
  const bool sampled = samples_.running();
  samples_.Stop();
  return traced || sampled;
}

void LateSdk::End() {
  if (LoadAcquire(&state_) != kReady || LoadAcquire(&finalized_) != 0) return;
  // If the worker hangs inside the SDK, we cannot call the SDK ourselves.
  const bool alone = lock_.LockFor(kExitPatienceMsec);
  StoreRelease(&finalized_, 1u);
  if (!alone) return;
  StopApi();
  samples_.Stop();
  lock_.Unlock();
}

void LateSdk::SetState(State state) {
  StoreRelease(&state_, static_cast<uint32_t>(state));
  StoreRelease(&process_->sdk_added, state >= kLoading ? 1u : 0u);
}

bool LateSdk::StartLoading() {
  if (path_[0] != '/' || memchr(path_, '\0', sizeof(path_)) == nullptr) {
    Fail("the service named no library");
  } else if (&dlopen == nullptr || &dlsym == nullptr || &dlerror == nullptr) {
    Fail("the program has no dlopen");
  } else {
    SetState(kLoading);
    if (StartThread(&LoadMain, this)) return true;
    Fail("no thread could be started");
  }
  SetState(kFailed);
  return false;
}

void* LateSdk::LoadMain(void* self_pointer) {
  prctl(PR_SET_NAME, "rocattach-late");
  auto* self = static_cast<LateSdk*>(self_pointer);
  // If the runtime has shut down meanwhile, the SDK is loaded when it is open again.
  const bool armed = LoadAcquire(&self->process_->phase) == kPhaseArmed;
  const State state = !armed ? kNone : self->Load() ? kReady : kFailed;
  self->SetState(state);
  self->process_->worker.Wake();
  return nullptr;
}

bool LateSdk::Load() {
  if (FindRegisterFunction("rocprofiler_register_library_api_table") == nullptr) {
    return Fail("the runtime has no rocprofiler-register");
  }
  if (dlopen(path_, RTLD_LAZY | RTLD_NOLOAD) != nullptr) {
    return Fail("another tool has already loaded it");
  }
  if (!g_hsa.live.KeepOpen()) return Fail("the runtime has just been shut down");
  environment_.set_variable(&environ);
  if (environment_.Install(path_, ToolVariables::kLateSdk) != 0) {
    return Fail("the process has no memory");
  }
  const bool done = ForceConfigure();
  environment_.Restore();
  return done;
}

bool LateSdk::ForceConfigure() {
  void* handle = dlopen(path_, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Fail("%s", why != nullptr ? why : "dlopen failed");
  }
  auto force = reinterpret_cast<rocattach_sdk_force_configure_fn>(
      dlsym(handle, "rocprofiler_force_configure"));
  if (force == nullptr) return Fail("it has no rocprofiler_force_configure");
  if (const char* missing =
          LoadSdkFunctions(reinterpret_cast<const void*>(force), &sdk_)) {
    return Fail("it has no %s", missing);
  }
  g_configuring = this;
  const rocattach_sdk_status status = force(&OnConfigure);
  if (initialized_ && status == ROCATTACH_SDK_STATUS_SUCCESS) return true;
  if (text_[0] != '\0') return false;
  const char* name = StatusName(sdk_, status);
  return Fail("it does not accept a tool now (status %d, %s)", status,
              name != nullptr ? name : "unknown");
}

rocattach_sdk_configure_result* LateSdk::OnConfigure(uint32_t version, const char*,
                                                     uint32_t,
                                                     rocattach_sdk_client_id* client) {
  LateSdk& self = *g_configuring;
  if (!self.process_->guard.Ours() || client == nullptr) return nullptr;
  self.version_ = version;
  if (version < kOldestVersion) {
    self.Fail("version %u.%u.%u cannot be added to a running process, 1.3 can",
              version / 10000, version / 100 % 100, version % 100);
    return nullptr;
  }
  client->name = "rocattach";
  self.result_ = {sizeof(self.result_), &OnInitialize, &OnFinalize, &self};
  return &self.result_;
}

int LateSdk::OnInitialize(rocattach_sdk_client_finalize_fn, void* self_pointer) {
  auto* self = static_cast<LateSdk*>(self_pointer);
  self->initialized_ = self->Initialize();
  return self->initialized_ ? 0 : 1;
}

bool LateSdk::Initialize() {
  Process& p = *process_;
  const rocattach_sdk_status status = agents_.Load(&sdk_, &p.dictionary, &p.agent_ids);
  if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
    return Fail("it does not list its agents (status %d)", status);
  }
  DefineAccumulators(sdk_, agents_);
  configs_.Init(&sdk_, &agents_, &p.plans);
  samples_.Init({&sdk_, &agents_, &configs_, &p.plans, &p.rings});
  can_sample_ = samples_.Configure();
  api_.Init(&p.plans, &p.rings);
  ConfigureApi();
  StoreRelaxed(&p.memory.control()->sdk_version, version_);
  return true;
}

void LateSdk::ConfigureApi() {
  // All domains except the HSA runtime's.
  constexpr rocattach_plan_api kDomains[] = {
      ROCATTACH_PLAN_API_HIP, ROCATTACH_PLAN_API_MARKER, ROCATTACH_PLAN_API_RCCL};
  for (rocattach_plan_api domain : kDomains) {
    ApiService& service = api_services_[domain];
    service.configured =
        sdk_.create_context(&service.context) == ROCATTACH_SDK_STATUS_SUCCESS &&
        api_.Configure(&sdk_, service.context, domain, &process_->dictionary,
                       &OnApiCall, this);
  }
}

void LateSdk::OnApiCall(rocattach_sdk_callback_record record,
                        rocattach_sdk_user_data* user_data, void* self_pointer) {
  auto* self = static_cast<LateSdk*>(self_pointer);
  // A forked child that was attached separately inherits the SDK's services, not ours.
  if (self->process_->Live() && LoadAcquire(&self->state_) == kReady &&
      LoadAcquire(&self->finalized_) == 0) {
    self->api_.OnCall(record, user_data);
  }
}

void LateSdk::OnFinalize(void* self_pointer) {
  ErrnoKeeper keep_errno;
  auto* self = static_cast<LateSdk*>(self_pointer);
  if (self->process_->guard.Ours()) self->End();
}

}  // namespace rocattach::collector
