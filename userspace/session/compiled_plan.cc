#include "userspace/session/compiled_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/session/number_ranges.h"
#include "userspace/session/plan_domains.h"
#include "userspace/session/plan_tables.h"

namespace rocattach {
namespace {

// True if `name` stands for the process's GPU number `index`: its number, serial
// number, PCI address, architecture, or a part of its product's name.
bool IsNamed(const TargetGpu& gpu, int index, absl::string_view name) {
  int number = 0;
  if (absl::SimpleAtoi(name, &number)) return number == index;
  return absl::EqualsIgnoreCase(name, gpu.uuid) ||
         absl::EqualsIgnoreCase(name, gpu.pci) ||
         name == ArchitectureName(gpu.architecture) ||
         absl::StrContains(gpu.product_name, name);
}

class Compiler {
 public:
  Compiler(const TargetDescription& target, CompiledPlan& plan)
      : target_(target), plan_(plan), image_(*plan.image), tables_(&plan) {}

  absl::Status Add(const FilterSpec& spec) {
    switch (spec.kind) {
      case FilterKind::kDispatchTimestamps: {
        RETURN_IF_ERROR(Want(ROCATTACH_PLAN_RECORD_DISPATCHES, "dispatches"));
        ASSIGN_OR_RETURN(const std::vector<const TargetGpu*> gpus, Gpus(spec));
        return Select(spec, gpus, ROCATTACH_PLAN_SELECTION_DISPATCHES);
      }
      case FilterKind::kCounters: {
        RETURN_IF_ERROR(Want(ROCATTACH_PLAN_RECORD_COUNTERS, "hardware counters"));
        ASSIGN_OR_RETURN(const std::vector<const TargetGpu*> gpus, Gpus(spec));
        RETURN_IF_ERROR(Select(spec, gpus, ROCATTACH_PLAN_SELECTION_COUNTERS));
        if (spec.instances) WantIfKnown(ROCATTACH_PLAN_RECORD_INSTANCES, "instances");
        return AddCounters(spec, gpus);
      }
      case FilterKind::kCountersSampler: {
        RETURN_IF_ERROR(Want(ROCATTACH_PLAN_RECORD_SAMPLES, "sampled counters"));
        ASSIGN_OR_RETURN(const std::vector<const TargetGpu*> gpus, Gpus(spec));
        if (spec.instances) WantIfKnown(ROCATTACH_PLAN_RECORD_INSTANCES, "instances");
        return AddSampler(spec, gpus);
      }
      default:
        return AddApi(spec);
    }
  }

  // Call this after the last filter.
  void Finish() {
    // If no dispatches are counted, the counter selection lists the named GPUs.
    if ((image_.record_kinds & ROCATTACH_PLAN_RECORD_COUNTERS) == 0 && sampler_named_) {
      rocattach_plan_selection& coarse =
          image_.selections[ROCATTACH_PLAN_SELECTION_COUNTERS];
      coarse.flags |= ROCATTACH_SELECT_AGENTS;
      std::copy(std::begin(image_.sample_agents), std::end(image_.sample_agents),
                std::begin(coarse.agents));
    }
    for (const TargetGpu& gpu : plan_.target.gpus) {
      const auto found = std::find_if(
          plan_.architectures.begin(), plan_.architectures.end(),
          [&](const PlanArchitecture& architecture) {
            return architecture.counters->name() == ArchitectureName(gpu.architecture);
          });
      plan_.gpu_architectures.push_back(
          found == plan_.architectures.end()
              ? -1
              : static_cast<int>(found - plan_.architectures.begin()));
    }
  }

 private:
  absl::Status Want(uint32_t kind, absl::string_view what) {
    if ((target_.record_kinds & kind) == 0) {
      return SessionError(SessionStatus::kFilterNotSupported,
                          absl::StrCat("this process cannot give ", what,
                                       target_.missing_reason.empty() ? "" : ": ",
                                       target_.missing_reason));
    }
    image_.record_kinds |= kind;
    return absl::OkStatus();
  }

  std::string MissingReason() const {
    return target_.missing_reason.empty() ? "this process cannot give it"
                                          : target_.missing_reason;
  }

  // For data that is recorded in addition to what the user has requested.
  void WantIfKnown(uint32_t kind, absl::string_view what) {
    if ((target_.record_kinds & kind) != 0) {
      image_.record_kinds |= kind;
    } else {
      plan_.left_out.push_back({std::string(what), MissingReason()});
    }
  }

  absl::StatusOr<std::vector<const TargetGpu*>> Gpus(const FilterSpec& spec) {
    std::vector<const TargetGpu*> gpus;
    int index = 0;
    for (const TargetGpu& gpu : plan_.target.gpus) {
      const auto& names = spec.selection.gpus;
      const bool named =
          names.empty() ||
          std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            return IsNamed(gpu, index, name);
          });
      const bool numbered = spec.sample_gpu_index < 0 || spec.sample_gpu_index == index;
      if (named && numbered) gpus.push_back(&gpu);
      ++index;
    }
    const bool restricts = !spec.selection.gpus.empty() || spec.sample_gpu_index >= 0;
    const bool needs = spec.kind != FilterKind::kDispatchTimestamps;
    if (gpus.empty() && (restricts || needs)) {
      return SessionError(
          SessionStatus::kAgentNotFound,
          absl::StrCat("none of the process's ", plan_.target.gpus.size(),
                       " GPUs matches ",
                       restricts ? absl::StrJoin(spec.selection.gpus, ", ") : ""));
    }
    return gpus;
  }

  absl::Status Select(const FilterSpec& spec, const std::vector<const TargetGpu*>& gpus,
                      size_t index) {
    ExactSelection& exact = plan_.selections[index];
    rocattach_plan_selection& coarse = image_.selections[index];
    exact.wanted = true;
    ASSIGN_OR_RETURN(exact.kernels,
                     KernelFilter::Create(spec.selection.kernel_include,
                                          spec.selection.kernel_exclude));
    exact.dispatches = Normalize(spec.selection.dispatches);
    exact.iterations = Normalize(spec.selection.iterations);
    if (exact.kernels.restricts()) coarse.flags |= ROCATTACH_SELECT_KERNELS;
    if (!spec.selection.gpus.empty()) {
      coarse.flags |= ROCATTACH_SELECT_AGENTS;
      for (const TargetGpu* gpu : gpus) {
        exact.agents.push_back(gpu->agent_id);
        if (gpu->agent_id < ROCATTACH_PLAN_MAX_AGENTS) {
          SetBit(coarse.agents, gpu->agent_id);
        }
      }
    }
    bool widened = false;
    if (!exact.dispatches.empty()) {
      coarse.flags |= ROCATTACH_SELECT_DISPATCHES;
      widened |=
          CopyRanges(exact.dispatches, coarse.dispatches, coarse.dispatch_ranges);
    }
    if (!exact.iterations.empty()) {
      coarse.flags |= ROCATTACH_SELECT_ITERATIONS;
      widened |=
          CopyRanges(exact.iterations, coarse.iterations, coarse.iteration_ranges);
    }
    if (widened) coarse.flags |= ROCATTACH_SELECT_COARSE;
    return absl::OkStatus();
  }

  void Own(const TargetGpu& gpu) {
    auto& keys = plan_.counter_gpus;
    if (std::find(keys.begin(), keys.end(), gpu.key) == keys.end()) {
      keys.push_back(gpu.key);
    }
  }

  // True if the other GPUs are measured without this one: the user has not named it,
  // and only this one lacks something.
  static bool CanBeLeftOut(const FilterSpec& spec, const absl::Status& why) {
    return absl::IsNotFound(why) && spec.selection.gpus.empty() &&
           spec.sample_gpu_index < 0;
  }

  // Calls `add` for each of the GPUs. Those that cannot be measured are left out if
  // there is one that can.
  absl::Status AddEach(const FilterSpec& spec,
                       const std::vector<const TargetGpu*>& gpus,
                       absl::FunctionRef<absl::Status(const TargetGpu&)> add) {
    std::vector<LeftOut> left_out;
    absl::Status first;
    for (const TargetGpu* gpu : gpus) {
      absl::Status added = add(*gpu);
      if (!added.ok() && !CanBeLeftOut(spec, added)) return added;
      if (added.ok()) continue;
      first.Update(added);
      left_out.push_back({absl::StrCat("GPU ", gpu - plan_.target.gpus.data(), " (",
                                       gpu->architecture, ")"),
                          std::string(added.message())});
    }
    if (!gpus.empty() && left_out.size() == gpus.size()) return first;
    for (LeftOut& one : left_out) plan_.left_out.push_back(std::move(one));
    return absl::OkStatus();
  }

  // Plans the passes of the filter on one GPU, before anything of it is in the plan.
  absl::StatusOr<PassAssignment> Passes(const FilterSpec& spec, const TargetGpu& gpu) {
    const absl::string_view name = ArchitectureName(gpu.architecture);
    const ArchitectureCounters* counters = plan_.catalog->Find(name);
    if (counters == nullptr) {
      return SessionError(SessionStatus::kCounterInformationMissing,
                          absl::StrCat("the counters of ", name,
                                       " are not known; a counter file can name them"));
    }
    return PlanPasses(*counters, spec.counters, {spec.single_pass, spec.keep_groups});
  }

  absl::Status AddCounters(const FilterSpec& spec,
                           const std::vector<const TargetGpu*>& gpus) {
    size_t most = 0;
    const auto add = [&](const TargetGpu& gpu) -> absl::Status {
      ASSIGN_OR_RETURN(PassAssignment passes, Passes(spec, gpu));
      Own(gpu);
      ASSIGN_OR_RETURN(const size_t index, tables_.Architecture(gpu.architecture));
      PlanArchitecture& architecture = plan_.architectures[index];
      if (!architecture.dispatch.passes.empty()) return absl::OkStatus();
      architecture.dispatch = std::move(passes);
      rocattach_plan_architecture& out = image_.architecture[index];
      RETURN_IF_ERROR(tables_.AddPasses(architecture.dispatch, out.dispatch_first_pass,
                                        out.dispatch_passes));
      most = std::max(most, architecture.dispatch.passes.size());
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(AddEach(spec, gpus, add));
    if (most > 1) {
      const bool by_time = spec.rotation_ns != 0;
      image_.rotation = by_time ? ROCATTACH_ROTATE_TIME : ROCATTACH_ROTATE_ITERATIONS;
      image_.rotation_interval = by_time ? spec.rotation_ns : spec.rotation_iterations;
    }
    return absl::OkStatus();
  }

  absl::Status AddSampler(const FilterSpec& spec,
                          const std::vector<const TargetGpu*>& gpus) {
    image_.sample_interval_ns = spec.sample_interval_ns;
    image_.sample_delay_ns = spec.sample_delay_ns;
    image_.sample_duration_ns = spec.sample_duration_ns;
    sampler_named_ = !spec.selection.gpus.empty() || spec.sample_gpu_index >= 0;
    return AddEach(spec, gpus, [&](const TargetGpu& gpu) -> absl::Status {
      if (gpu.agent_id >= ROCATTACH_PLAN_MAX_AGENTS) return PlanTables::TooMany("GPUs");
      ASSIGN_OR_RETURN(PassAssignment passes, Passes(spec, gpu));
      SetBit(image_.sample_agents, gpu.agent_id);
      Own(gpu);
      ASSIGN_OR_RETURN(const size_t index, tables_.Architecture(gpu.architecture));
      PlanArchitecture& architecture = plan_.architectures[index];
      if (!architecture.sampler.passes.empty()) return absl::OkStatus();
      architecture.sampler = std::move(passes);
      rocattach_plan_architecture& out = image_.architecture[index];
      return tables_.AddPasses(architecture.sampler, out.sampler_first_pass,
                               out.sampler_passes);
    });
  }

  absl::Status AddApi(const FilterSpec& spec) {
    for (TraceDomain domain : spec.api_domains) {
      const bool optional = std::count(spec.optional_domains.begin(),
                                       spec.optional_domains.end(), domain) != 0;
      if (const auto kind = PlanKindOf(domain); kind.has_value()) {
        if (optional) {
          WantIfKnown(kind->record_kind, kind->name);
        } else {
          RETURN_IF_ERROR(Want(kind->record_kind, kind->name));
        }
        continue;
      }
      if (const uint32_t bit = 1u << PlanApiOf(domain);
          (target_.record_kinds & ROCATTACH_PLAN_RECORD_API) != 0 &&
          (target_.api_domains & bit) == 0) {
        if (!optional) {
          return SessionError(SessionStatus::kFilterNotSupported,
                              absl::StrCat("this process cannot give ", ApiText(domain),
                                           ": ", MissingReason()));
        }
        plan_.left_out.push_back({std::string(ApiText(domain)), MissingReason()});
        continue;
      }
      // If the SDK is added later, its functions are not known yet.
      if (domain == TraceDomain::kRcclApi && !TracesRccl() &&
          (optional || !target_.functions.empty())) {
        if (optional) continue;  // few processes have it, and it was not named
        return SessionError(SessionStatus::kFilterNotSupported,
                            "this process cannot give RCCL calls: its rocprofiler-sdk "
                            "does not name them");
      }
      if (optional && (target_.record_kinds & ROCATTACH_PLAN_RECORD_API) == 0) {
        WantIfKnown(ROCATTACH_PLAN_RECORD_API, ApiText(domain));
        continue;
      }
      RETURN_IF_ERROR(Want(ROCATTACH_PLAN_RECORD_API, "API calls"));
      RETURN_IF_ERROR(AddFunctions(domain, spec));
    }
    if (spec.arguments) WantIfKnown(ROCATTACH_PLAN_RECORD_ARGUMENTS, "arguments");
    return absl::OkStatus();
  }

  bool TracesRccl() const {
    return std::any_of(target_.functions.begin(), target_.functions.end(),
                       [](const TargetFunction& known) {
                         return known.domain == ROCATTACH_PLAN_API_RCCL;
                       });
  }

  absl::Status AddFunctions(TraceDomain domain, const FilterSpec& spec) {
    const std::vector<std::string>* names = nullptr;
    const uint32_t table = PlanApiOf(domain);
    if (domain == TraceDomain::kHsaApi) {
      names = &spec.selection.hsa_functions;
    } else if (domain == TraceDomain::kHipApi) {
      names = &spec.selection.hip_functions;
    }
    rocattach_plan_api_functions& out = image_.api[table];
    out.enabled = 1;
    out.all = names == nullptr || names->empty() ? 1 : 0;
    if (out.all) return absl::OkStatus();
    if (target_.functions.empty()) {
      return SessionError(
          SessionStatus::kFilterNotSupported,
          "the names of this process's API functions are not known before "
          "rocprofiler-sdk is added to it: trace all calls");
    }
    for (const std::string& name : *names) {
      // Numbers differ between versions of the SDK.
      const auto function = std::find_if(
          target_.functions.begin(), target_.functions.end(), [&](const auto& known) {
            return known.domain == table && known.name == name;
          });
      if (function == target_.functions.end() ||
          function->number >= ROCATTACH_PLAN_API_FUNCTIONS) {
        return SessionError(
            SessionStatus::kInvalidOperationId,
            absl::StrCat("this process has no API function \"", name, "\""));
      }
      SetBit(out.functions, function->number);
    }
    return absl::OkStatus();
  }

  const TargetDescription& target_;
  CompiledPlan& plan_;
  rocattach_plan& image_;
  PlanTables tables_;
  bool sampler_named_ = false;  // the user has chosen the GPUs that are sampled
};

}  // namespace

std::string LeftOut::Text() const {
  return absl::StrCat("without ", what, ": ", why);
}

std::vector<LeftOut> ByReason(const std::vector<LeftOut>& left_out) {
  std::vector<LeftOut> merged;
  for (const LeftOut& one : left_out) {
    const auto same =
        std::find_if(merged.begin(), merged.end(),
                     [&one](const LeftOut& other) { return other.why == one.why; });
    if (same == merged.end()) {
      merged.push_back(one);
    } else {
      absl::StrAppend(&same->what, ", ", one.what);
    }
  }
  return merged;
}

bool ExactSelection::SelectsBut(uint32_t agent, uint64_t dispatch,
                                uint64_t iteration) const {
  return wanted &&
         (agents.empty() ||
          std::find(agents.begin(), agents.end(), agent) != agents.end()) &&
         InRanges(dispatches, dispatch) && InRanges(iterations, iteration);
}

const TargetGpu* CompiledPlan::Gpu(uint32_t agent_id) const {
  for (const TargetGpu& gpu : target.gpus) {
    if (gpu.agent_id == agent_id) return &gpu;
  }
  return nullptr;
}

const PlanArchitecture* CompiledPlan::Architecture(uint32_t agent_id) const {
  // Called for every record with values, so no names are compared here.
  for (size_t i = 0; i < gpu_architectures.size(); ++i) {
    if (target.gpus[i].agent_id != agent_id) continue;
    const int index = gpu_architectures[i];
    return index < 0 ? nullptr : &architectures[static_cast<size_t>(index)];
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const CompiledPlan>> CompilePlan(
    SessionId session, const std::vector<FilterSpec>& filters,
    const TargetDescription& target, std::shared_ptr<const CounterCatalog> catalog,
    std::vector<LeftOut> left_out) {
  auto plan = std::make_shared<CompiledPlan>();
  plan->image = std::make_unique<rocattach_plan>();
  plan->target = target;
  plan->catalog = std::move(catalog);
  plan->left_out = std::move(left_out);
  rocattach_plan& image = *plan->image;
  image.magic = ROCATTACH_PLAN_MAGIC;
  image.version = ROCATTACH_PLAN_VERSION;
  image.bytes = sizeof(rocattach_plan);
  image.session_id = static_cast<uint64_t>(session);
  image.rotation_interval = 1;
  Compiler compiler(target, *plan);
  for (const FilterSpec& filter : filters) RETURN_IF_ERROR(compiler.Add(filter));
  compiler.Finish();
  return std::shared_ptr<const CompiledPlan>(std::move(plan));
}

}  // namespace rocattach
