#include "userspace/record/sessions/target_session.h"

#include <errno.h>

#include <string.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/gpus/gpu_devices.h"
#include "userspace/record/sessions/session_plan.h"
#include "userspace/session/missing_counters.h"
#include "userspace/session/session_end.h"
#include "userspace/watch/discovery/sdk_version.h"

namespace rocattach {
namespace {

// Plans that are reused when a session requests the same one; limited, so that
// ever-changing sessions do not make the service grow.
constexpr size_t kKnownPlans = 64;

// For a process that was released without rocprofiler-sdk. The SDK can be added
// later, but then cannot handle existing queues, and new ones must be left to the
// collector.
constexpr char kArmedWithHsaTools[] =
    "it was armed with the HSA tools: it has dispatches, memory copies, and, with "
    "rocprofiler-sdk 1.3 or later, counters of whole GPUs (--device-samples), but no "
    "counters of single dispatches and no API calls. To have those, run "
    "rocattach-watch with --backend sdk, or with --pmc, and "
    "start the process again";
constexpr char kAttachedLate[] =
    "rocprofiler-sdk is loaded when a process starts its runtime; this one was "
    "attached to later: it has dispatches, memory copies, allocations and, with "
    "rocprofiler-sdk 1.3 or later, counters of whole GPUs (--device-samples), calls of "
    "HIP and RCCL, and markers";
// Followed by why it cannot be added.
constexpr char kLoadedAtStart[] =
    "rocprofiler-sdk is loaded when a process starts its runtime; this one was "
    "attached to later: ";
// API domains that an SDK which is added later can trace without touching the HSA
// runtime's functions.
constexpr uint32_t kLateApiDomains = 1u << ROCATTACH_PLAN_API_HIP |
                                     1u << ROCATTACH_PLAN_API_MARKER |
                                     1u << ROCATTACH_PLAN_API_RCCL;
constexpr uint32_t kLoadsSdk =
    ROCATTACH_PLAN_RECORD_SAMPLES | ROCATTACH_PLAN_RECORD_API;

// As lspci writes it.
std::string PciAddress(uint64_t bdf) {
  return absl::StrFormat("%04x:%02x:%02x.%x", bdf >> 16, bdf >> 8 & 0xff,
                         bdf >> 3 & 0x1f, bdf & 7);
}

// Accelerator complex dies that a GPU's counters are spread over; 0: not known. The
// gfx94x and gfx950 have several, their number depends on the partition mode and is
// known to rocprofiler-sdk; others have one.
uint32_t XccsOf(const v1::Agent& agent) {
  if (agent.xccs() != 0) return agent.xccs();
  return absl::StartsWith(agent.name(), "gfx94") ||
                 absl::StartsWith(agent.name(), "gfx95")
             ? 0
             : 1;
}

// The location_id from the driver; 0 if that is not known, or for a first partition.
uint64_t LocationId(const v1::Agent& agent) {
  for (const v1::AgentProperty& property : agent.properties()) {
    if (property.name() == "location_id") return property.value();
  }
  return 0;
}

std::string ErrorText(const PlanAnswer& answer) {
  if (!answer.text.empty()) return answer.text;
  switch (answer.error) {
    case ROCATTACH_PLAN_ERROR_MALFORMED:
      return "the collector cannot read the plan";
    case ROCATTACH_PLAN_ERROR_UNSUPPORTED:
      return "its backend cannot record this kind of data";
    case ROCATTACH_PLAN_ERROR_NO_COUNTER:
      return "one of its GPUs has no such counter";
    case ROCATTACH_PLAN_ERROR_HW_LIMIT:
      return "a pass has more counters than the hardware holds";
    case ROCATTACH_PLAN_ERROR_CONFLICT:
      return "another tool counts in this process";
    case ROCATTACH_PLAN_ERROR_NO_MEMORY:
      return "the collector has no memory for the plan";
    case ROCATTACH_PLAN_ERROR_ENDED:
      return "the process is ending";
    default:
      return absl::StrCat("error ", answer.error, ", code ", answer.code);
  }
}

}  // namespace

TargetSession::TargetSession(ProcessId id, CollectorMemory* memory,
                             ProcessOutput output, OutputSet* output_set)
    : id_(id),
      memory_(memory),
      output_(output),
      output_set_(output_set),
      records_(id, output, output_set, &plans_, &kernels_) {}

TargetSession::~TargetSession() = default;

void TargetSession::AddAgent(const v1::Agent& agent) {
  for (v1::Agent& known : agents_) {
    if (known.id() == agent.id()) {
      known = agent;
      return;
    }
  }
  if (agents_.size() < ROCATTACH_PLAN_MAX_AGENTS) agents_.push_back(agent);
}

void TargetSession::AddKernel(const v1::Kernel& kernel) {
  if (!kernels_.Add(kernel)) return;
  plans_.ForgetAnswers(kernel.id());
  DecideKernels();
}

void TargetSession::AddFunction(const v1::ApiFunction& function) {
  constexpr size_t kMost =
      size_t{ROCATTACH_PLAN_API_DOMAINS} * ROCATTACH_PLAN_API_FUNCTIONS;
  if (functions_.size() >= kMost) return;
  functions_.push_back(
      {static_cast<uint32_t>(function.domain()), function.function(), function.name()});
  names_->AddFunction(TraceDomainOf(functions_.back().domain), function.function(),
                      function.name());
  output_set_->KeepError(output_.writer->AddApiFunction(output_.stream, function));
}

std::optional<TargetDescription> TargetSession::Describe(
    const std::string& sdk_missing) const {
  // This is asked only once: if GPUs were missing, no session would ever find them.
  if (!memory_->agents_read()) return std::nullopt;
  const BackendFacts backend = memory_->control().backend();
  if (backend.backend == ROCATTACH_BACKEND_NONE) return std::nullopt;
  TargetDescription description;
  description.record_kinds = backend.record_kinds;
  description.missing_reason = sdk_missing.empty() ? backend.text : sdk_missing;
  if (sdk_missing.empty() && LacksSdk(backend)) {
    description.missing_reason =
        memory_->control().entered_late() ? kAttachedLate : kArmedWithHsaTools;
    // Whether the SDK can be added is determined when a session needs it.
    if (!sdk_refusal_.empty()) {
      description.missing_reason = absl::StrCat(kLoadedAtStart, sdk_refusal_);
    } else {
      if (late_sdk_.has_value()) {
        description.record_kinds |= ROCATTACH_PLAN_RECORD_SAMPLES;
      }
      if (memory_->control().entered_late()) AddLateApi(&description);
    }
  }
  description.functions = functions_;
  description.gpus = Gpus();
  names_->SetGpus(GpuNames(description.gpus));
  description.names = names_;
  return description;
}

std::vector<TargetGpu> TargetSession::Gpus() const {
  std::vector<TargetGpu> gpus;
  for (const v1::Agent& agent : agents_) {
    if (agent.type() != v1::AGENT_TYPE_GPU) continue;
    TargetGpu gpu;
    gpu.agent_id = agent.id();
    // Runtimes put a placeholder where a GPU has no serial number.
    const bool serial = agent.uuid().size() > 6 && agent.uuid() != "GPU-XX";
    if (serial) gpu.uuid = agent.uuid();
    gpu.pci = PciAddress(agent.pci_bdf());
    gpu.key = GpuKey(gpu.uuid, gpu.pci, LocationId(agent));
    gpu.architecture = agent.name();
    gpu.product_name = agent.product_name();
    gpu.compute_units = agent.compute_units();
    gpu.simds_per_cu = agent.simds_per_cu();
    gpu.shader_engines = agent.shader_engines();
    gpu.wavefront_size = agent.wavefront_size();
    gpu.xccs = XccsOf(agent);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

std::vector<std::string> TargetSession::CountedGpus() const {
  return current_ == nullptr ? std::vector<std::string>()
                             : current_->plan->counter_gpus;
}

bool TargetSession::LacksSdk(const BackendFacts& backend) const {
  return backend.backend == ROCATTACH_BACKEND_HSA_TOOLS &&
         backend.reason == ROCATTACH_BACKEND_REASON_DEFAULT;
}

absl::Status TargetSession::AddLateSdk(rocattach_plan* image) const {
  const BackendChoice choice =
      ChooseBackend(id_.pid, late_sdk_.has_value() ? *late_sdk_ : SdkSearch{false, ""});
  if (!choice.missing.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it was armed without rocprofiler-sdk, which cannot be added: ",
                     choice.missing));
  }
  // Checked before anything is loaded into the process.
  RETURN_IF_ERROR(
      CheckSdkCanBeAdded(absl::StrCat("/proc/", id_.pid, "/root"), choice.sdk));
  if (choice.sdk.size() >= sizeof(image->late_sdk)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the path of its rocprofiler-sdk is longer than ",
                     sizeof(image->late_sdk) - 1, " bytes: ", choice.sdk));
  }
  memcpy(image->late_sdk, choice.sdk.c_str(), choice.sdk.size() + 1);
  return absl::OkStatus();
}

// Checked now: a session that requests calls among other things leaves out what a
// process cannot give, and must not be refused when the SDK turns out to be missing.
void TargetSession::AddLateApi(TargetDescription* description) const {
  absl::Status status = AddLateSdk(std::make_unique<rocattach_plan>().get());
  // Unless an earlier session has added it.
  if (status.ok() && memory_->control().backend().sdk_version == 0) {
    status = CheckSdkIsNotLoaded(id_.pid);
  }
  if (!status.ok()) {
    description->missing_reason = absl::StrCat(kLoadedAtStart, status.message());
    return;
  }
  description->record_kinds |=
      ROCATTACH_PLAN_RECORD_API | ROCATTACH_PLAN_RECORD_ARGUMENTS;
  description->api_domains = kLateApiDomains;
}

uint32_t TargetSession::PlanId(const CompiledPlan& plan) {
  v1::SessionPlan description = SessionPlanToProto(plan);
  const std::string key = description.SerializeAsString();
  if (const auto known = plan_ids_.find(key); known != plan_ids_.end()) {
    return known->second;
  }
  uint32_t last = 0;
  for (const auto& [other, id] : plan_ids_) last = std::max(last, id);
  if (plan_ids_.size() >= kKnownPlans) {
    // A plan that recurs is described again, under another number.
    std::erase_if(plan_ids_, [&](const auto& entry) { return entry.second != last; });
  }
  plan_ids_[key] = last + 1;
  description.set_id(last + 1);
  output_set_->KeepError(
      output_.writer->AddSessionPlan(output_.stream, std::move(description)));
  return last + 1;
}

void TargetSession::Start(std::shared_ptr<const CompiledPlan> plan,
                          std::shared_ptr<RecordSink> sink, uint64_t session,
                          Done done) {
  if (closed_) {
    done(absl::CancelledError("the recording had ended before the session began"));
    return;
  }
  if (sink != nullptr && BootNs() >= sink->ends_ns()) {
    done(absl::CancelledError("the session ended before it could begin"));
    return;
  }
  if (current_ != nullptr || starting_.has_value()) {
    done(absl::FailedPreconditionError("a session is active in it"));
    return;
  }
  const bool late = (plan->image->record_kinds & kLoadsSdk) != 0 &&
                    LacksSdk(memory_->control().backend());
  std::unique_ptr<rocattach_plan> image;
  if (late) {
    image = std::make_unique<rocattach_plan>(*plan->image);
    if (absl::Status added = AddLateSdk(image.get()); !added.ok()) {
      done(added);
      return;
    }
  }
  auto active = std::make_shared<ActivePlan>();
  active->session = session;
  active->plan = std::move(plan);
  active->sink = std::move(sink);
  active->plan_id = PlanId(*active->plan);
  active->instances =
      (active->plan->image->record_kinds & ROCATTACH_PLAN_RECORD_INSTANCES) != 0;
  const uint64_t now = BootNs();
  active->dispatches_before = memory_->Account().dispatches_seen;
  active->generation = generation_ =
      memory_->control().WritePlan(late ? *image : *active->plan->image);
  current_ = active;
  plans_.Add(std::move(active));
  DecideKernels();
  starting_ =
      Waiting{generation_, now, std::move(done), late ? kLateAnswerNs : kAnswerNs};
}

void TargetSession::DecideKernels() {
  if (current_ == nullptr) return;
  // Kernels after a missing name stay undecided: the service decides their dispatches.
  const uint32_t decided = kernels_.FirstMissing(current_->decided);
  for (uint32_t index = 0; index < ROCATTACH_PLAN_SELECTIONS; ++index) {
    const ExactSelection& exact = current_->plan->selections[index];
    if (!exact.wanted || !exact.kernels.restricts()) continue;
    std::vector<uint32_t> selected;
    for (uint32_t kernel = current_->decided; kernel < decided; ++kernel) {
      if (kernels_.Selects(current_.get(), index, kernel)) selected.push_back(kernel);
    }
    memory_->control().DecideKernels(index, selected, decided);
  }
  current_->decided = decided;
}

void TargetSession::Stop() {
  if (current_ == nullptr) return;
  stopped_had_begun_ = !starting_.has_value();
  if (starting_.has_value()) {
    // The answer to the earlier plan is no longer awaited.
    Done done = std::move(starting_->done);
    starting_.reset();
    done(absl::CancelledError(kEndedBeforeBegun));
  }
  rocattach_plan none = {};
  none.magic = ROCATTACH_PLAN_MAGIC;
  none.version = ROCATTACH_PLAN_VERSION;
  none.bytes = sizeof(none);
  none.rotation_interval = 1;
  generation_ = memory_->control().WritePlan(none);
  stopped_ = std::exchange(current_, nullptr);
  stop_asked_ns_ = BootNs();
}

void TargetSession::Close() {
  closed_ = true;
  Stop();
}

uint64_t TargetSession::ends_ns() const {
  const bool may_end = current_ != nullptr && current_->sink != nullptr;
  return may_end ? current_->sink->ends_ns() : UINT64_MAX;
}

void TargetSession::Settle(Done done) {
  // The time limit counts from the stop: all are stopped before the first is waited
  // for, so that waiting for many takes no longer than for one.
  const bool stopped = current_ == nullptr && stop_asked_ns_ != 0;
  settling_.push_back(
      {generation_, stopped ? stop_asked_ns_ : BootNs(), std::move(done)});
}

void TargetSession::AfterDrain(Done done) {
  // Only the sweeps are awaited, no answer.
  settling_.push_back({0, BootNs(), std::move(done)});
}

void TargetSession::FinishStop(const std::string& how) {
  const std::shared_ptr<ActivePlan> plan = std::exchange(stopped_, nullptr);
  if (stopped_had_begun_) Event(*plan, v1::SessionEvent::STOPPED, how, 0);
}

bool TargetSession::Poll(uint64_t now_ns) {
  if (now_ns >= ends_ns()) Stop();
  const uint64_t answered = memory_->control().answered_generation();
  if (starting_.has_value()) {
    const bool in_time = now_ns < starting_->asked_ns + starting_->patience_ns;
    if (answered == starting_->generation || !in_time) {
      AnswerStart(now_ns, answered == starting_->generation);
    }
  }
  if (stopped_ != nullptr &&
      (answered == generation_ || now_ns >= stop_asked_ns_ + kAnswerNs)) {
    FinishStop(answered == generation_ ? "" : "the process did not answer");
  }
  return awaited();
}

void TargetSession::AnswerStart(uint64_t now_ns, bool answered) {
  Waiting waiting = *std::move(starting_);
  starting_.reset();
  std::shared_ptr<ActivePlan> active = current_;
  absl::Status status;
  std::string cost;  // the collector's note on the start
  if (!answered) {
    const bool late = waiting.patience_ns == kLateAnswerNs;
    status = absl::DeadlineExceededError(absl::StrCat(
        "its collector did not answer within ", waiting.patience_ns / 1'000'000,
        late ? " ms; rocprofiler-sdk may still be loading, or hang while it does, or "
               "the process may be stopped or ending"
             : " ms; the process may be stopped, or ending"));
  } else if (const PlanAnswer answer = memory_->control().plan_answer();
             answer.error != ROCATTACH_PLAN_ERROR_NONE) {
    // EBUSY: the process's own dispatches are in the way.
    if (answer.error == ROCATTACH_PLAN_ERROR_CONFLICT && answer.code != EBUSY) {
      external_gpus_ = active->plan->counter_gpus;
    }
    status = absl::FailedPreconditionError(ErrorText(answer));
    const std::vector<std::string>& counters = active->plan->counter_names;
    if (answer.error == ROCATTACH_PLAN_ERROR_NO_COUNTER && answer.counter != 0 &&
        answer.counter <= counters.size()) {
      SetMissingCounter(counters[answer.counter - 1], &status);
    }
  } else {
    cost = answer.text;
  }
  if (status.ok()) {
    if (!active->plan->counter_gpus.empty()) external_gpus_.clear();
    // Items that the service left out, then the collector's note on the start.
    std::vector<std::string> notes;
    for (const LeftOut& one : ByReason(active->plan->left_out)) {
      notes.push_back(one.Text());
    }
    if (!cost.empty()) notes.push_back(cost);
    before_ += active->dispatches_before;
    Event(*active, v1::SessionEvent::STARTED, absl::StrJoin(notes, "; "),
          now_ns - waiting.asked_ns);
  } else {
    Stop();
    stopped_ = nullptr;  // it never began
    // Before the SDK is loaded, nothing else in the request can be the cause.
    const bool adds_sdk = waiting.patience_ns == kLateAnswerNs;
    if (adds_sdk && memory_->control().backend().sdk_version == 0) {
      sdk_refusal_ = std::string(status.message());
    }
  }
  waiting.done(status);
}

void TargetSession::Drained() {
  const uint64_t answered = memory_->control().answered_generation();
  const uint64_t now = BootNs();
  std::vector<Waiting> settled;
  for (auto waiting = settling_.begin(); waiting != settling_.end();) {
    // Drained twice: the answer may have been written after the first read of the
    // rings.
    const bool ready = answered >= waiting->generation && answered <= generation_;
    const bool late = now >= waiting->asked_ns + kAnswerNs;
    if (ready ? ++waiting->rounds >= 2 : late) {
      settled.push_back(std::move(*waiting));
      waiting = settling_.erase(waiting);
    } else {
      ++waiting;
    }
  }
  for (Waiting& waiting : settled) waiting.done(absl::OkStatus());
}

void TargetSession::NotRead() {
  std::vector<Waiting> settling = std::exchange(settling_, {});
  for (Waiting& waiting : settling) waiting.done(absl::OkStatus());
}

void TargetSession::Ended() {
  // It may have answered and done all its work since the last poll.
  if (starting_.has_value() &&
      memory_->control().answered_generation() == starting_->generation) {
    AnswerStart(BootNs(), true);
  }
  records_.End();
  if (starting_.has_value()) {
    Waiting waiting = *std::move(starting_);
    starting_.reset();
    Event(*current_, v1::SessionEvent::LOST,
          "the process ended before the session was active", 0);
    current_ = nullptr;
    waiting.done(absl::NotFoundError("it ended while the session was starting"));
  }
  NotRead();
  if (stopped_ != nullptr) FinishStop("");
  if (current_ == nullptr) return;
  Event(*current_, v1::SessionEvent::STOPPED, "the process ended", 0);
  std::shared_ptr<ActivePlan> active = std::exchange(current_, nullptr);
  active->sink->OnTargetEnded(id_);
}

void TargetSession::WriteRefusal(uint64_t session, const std::string& why) {
  ActivePlan active;
  active.session = session;
  Event(active, v1::SessionEvent::REFUSED, why, 0);
}

void TargetSession::Event(const ActivePlan& active, v1::SessionEvent::What what,
                          const std::string& detail, uint64_t latency_ns) {
  records_.Write();
  v1::SessionEvent event;
  event.set_time_ns(BootNs());
  event.set_session(active.session);
  event.set_plan(active.plan_id);
  event.set_what(what);
  event.set_detail(detail);
  event.set_latency_ns(latency_ns);
  output_set_->KeepError(
      output_.writer->AddSessionEvent(output_.stream, std::move(event)));
}

}  // namespace rocattach
