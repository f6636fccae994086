#include "userspace/collector/sdk/configs.h"

#include <stdio.h>
#include <string.h>

namespace rocattach::collector {
namespace {

// SQ_ACCUM_PREV and SQ_ACCUM_PREV_HIRES.
constexpr char kFollower[] = "SQ_ACCUM_PREV";
// NAME_ACCUM is NAME added up by SQ_ACCUM_PREV_HIRES.
constexpr char kAccumulated[] = "_ACCUM";

// True if `name` is that of an accumulated counter; `leader` is the one added up.
bool IsAccumulated(const char* name, char (&leader)[ROCATTACH_PLAN_NAME_BYTES]) {
  const size_t bytes = strlen(name), suffix = strlen(kAccumulated);
  if (bytes <= suffix || bytes >= sizeof(leader) + suffix ||
      strcmp(name + bytes - suffix, kAccumulated) != 0) {
    return false;
  }
  memcpy(leader, name, bytes - suffix);
  leader[bytes - suffix] = '\0';
  return true;
}

const char* NameAt(const PlanState& state, const rocattach_plan_pass& pass,
                   uint32_t place) {
  return state.plan.counter_name[state.plan.pass_counters[pass.first_counter + place]];
}

// The counter measured at `place`: the one named, or the one that it adds up over time.
struct Counted {
  char name[ROCATTACH_PLAN_NAME_BYTES];
  bool added_up;
};
Counted CountedAt(const PlanState& state, const rocattach_plan_pass& pass,
                  uint32_t place) {
  const char* name = NameAt(state, pass, place);
  Counted counted = {};
  counted.added_up = strncmp(name, kFollower, strlen(kFollower)) == 0 && place != 0;
  if (counted.added_up) {
    name = NameAt(state, pass, place - 1);
  } else if (IsAccumulated(name, counted.name)) {
    counted.added_up = true;
    return counted;
  }
  snprintf(counted.name, sizeof(counted.name), "%s", name);
  return counted;
}

// SDK 1.0 keeps the results of a counter and of the same counter added up under one
// number: if both are in a pass, each gets the sum of both.
bool MixesUp(const PlanState& state, const rocattach_plan_pass& pass,
             PlanResult* result) {
  for (uint32_t i = 0; i < pass.counters; ++i) {
    const Counted one = CountedAt(state, pass, i);
    if (!one.added_up) continue;
    for (uint32_t j = 0; j < pass.counters; ++j) {
      if (j == i || strcmp(CountedAt(state, pass, j).name, one.name) != 0) continue;
      *result = PlanResult::Error(
          ROCATTACH_PLAN_ERROR_NO_COUNTER, 0,
          "the SDK of this process gives wrong values of %s and %s in one pass",
          NameAt(state, pass, j), NameAt(state, pass, i));
      return true;
    }
  }
  return false;
}

// True if the user has chosen GPUs, and true if this one is among them.
bool ChoosesGpus(const rocattach_plan_selection* selection) {
  return selection != nullptr &&
         (LoadRelaxed(&selection->flags) & ROCATTACH_SELECT_AGENTS) != 0;
}
bool IsChosen(const rocattach_plan_selection& selection, uint32_t agent) {
  return agent < ROCATTACH_PLAN_MAX_AGENTS &&
         (LoadRelaxed(&selection.agents[agent / 64]) >> (agent % 64) & 1) != 0;
}

}  // namespace

rocattach_plan_error PlanErrorOf(rocattach_sdk_status status) {
  switch (status) {
    case ROCATTACH_SDK_STATUS_SUCCESS:
      return ROCATTACH_PLAN_ERROR_NONE;
    case ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT:
      return ROCATTACH_PLAN_ERROR_HW_LIMIT;
    case ROCATTACH_SDK_STATUS_ERROR_COUNTER_NOT_FOUND:
    case ROCATTACH_SDK_STATUS_ERROR_PROFILE_COUNTER_NOT_FOUND:
    case ROCATTACH_SDK_STATUS_ERROR_METRIC_NOT_VALID_FOR_AGENT:
    case ROCATTACH_SDK_STATUS_ERROR_NO_HARDWARE_COUNTERS:
      return ROCATTACH_PLAN_ERROR_NO_COUNTER;
    case ROCATTACH_SDK_STATUS_ERROR_CONTEXT_CONFLICT:
    case ROCATTACH_SDK_STATUS_ERROR_AGENT_DISPATCH_CONFLICT:
    case ROCATTACH_SDK_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED:
      return ROCATTACH_PLAN_ERROR_CONFLICT;
    case ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED:
    case ROCATTACH_SDK_STATUS_ERROR_FINALIZED:
      return ROCATTACH_PLAN_ERROR_ENDED;
    default:
      return ROCATTACH_PLAN_ERROR_SDK;
  }
}

const char* StatusName(const rocattach_sdk_functions& sdk,
                       rocattach_sdk_status status) {
  const char* name =
      sdk.get_status_name != nullptr ? sdk.get_status_name(status) : nullptr;
  return name != nullptr ? name : "a status without a name";
}

const SdkPassTable* SdkConfigs::Build(const PlanState& state, PlanResult* result,
                                      const rocattach_plan_selection* selection) {
  if (configs_ == nullptr) {
    configs_ =
        static_cast<SdkConfig*>(AllocatePrivate(kMaxConfigs * sizeof(SdkConfig)));
    orders_ = static_cast<InstanceOrder*>(
        AllocatePrivate(kMaxConfigs * sizeof(InstanceOrder)));
    tables_ =
        static_cast<SdkPassTable*>(AllocatePrivate(kTables * sizeof(SdkPassTable)));
  }
  if (configs_ == nullptr || orders_ == nullptr || tables_ == nullptr) {
    *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_MEMORY, ENOMEM,
                                "the process has no memory for counter configs");
    return nullptr;
  }
  SdkPassTable* table = &tables_[next_table_++ % kTables];
  StoreRelease(&table->generation, uint64_t{0});
  memset(table->dispatch_passes, 0, sizeof(table->dispatch_passes));
  memset(table->sampler_passes, 0, sizeof(table->sampler_passes));
  for (uint32_t i = 0; i < agents_->count(); ++i) {
    if (!agents_->at(i).gpu) continue;
    if (Unmeasurable(state, i)) {
      const char* name = agents_->at(i).name;
      // Nothing is reported about GPUs that the user has not chosen.
      const bool chosen = ChoosesGpus(selection);
      if (chosen && !IsChosen(*selection, agents_->at(i).dictionary_id)) continue;
      if (chosen) {
        *result = PlanResult::Error(
            ROCATTACH_PLAN_ERROR_NO_COUNTER, 0,
            "a GPU (%s) that was asked for cannot be measured: rocprofiler-sdk lists "
            "no counters of it",
            name);
        return nullptr;
      }
      // This GPU must not keep the others from being measured. The answer names it.
      if (result->text[0] == '\0') {
        snprintf(result->text, sizeof(result->text),
                 "without a GPU (%s) of which rocprofiler-sdk lists no counters", name);
      }
      continue;
    }
    if (!BuildAgent(state, i, table, result)) return nullptr;
  }
  // A plan for other GPUs would be active but count nothing.
  auto any = [&](const uint16_t(&passes)[SdkAgents::kMax], uint32_t kind) {
    for (uint16_t count : passes) {
      if (count != 0) return true;
    }
    return (state.plan.record_kinds & kind) == 0;
  };
  if (!any(table->dispatch_passes, ROCATTACH_PLAN_RECORD_COUNTERS) ||
      !any(table->sampler_passes, ROCATTACH_PLAN_RECORD_SAMPLES)) {
    *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_COUNTER, 0,
                                "the plan counts nothing on the GPUs of this process");
    return nullptr;
  }
  StoreRelease(&table->generation, state.generation);
  return table;
}

// True if the plan measures GPUs of this one's architecture, and the
// SDK cannot measure this one.
bool SdkConfigs::Unmeasurable(const PlanState& state, uint32_t agent) {
  return FindArchitecture(state.plan, agents_->at(agent).name) != nullptr &&
         !agents_->HasCounters(agent);
}

bool SdkConfigs::BuildAgent(const PlanState& state, uint32_t agent, SdkPassTable* table,
                            PlanResult* result) {
  const SdkAgent& facts = agents_->at(agent);
  const rocattach_plan_architecture* a = FindArchitecture(state.plan, facts.name);
  if (a == nullptr) return true;
  uint32_t kinds = state.plan.record_kinds;
  uint32_t id = facts.dictionary_id;
  auto build = [&](uint16_t first, uint16_t count) {
    for (uint32_t pass = first; pass < uint32_t{first} + count; ++pass) {
      if (!BuildPass(state, agent, pass, table, result)) return false;
    }
    return true;
  };
  if ((kinds & ROCATTACH_PLAN_RECORD_COUNTERS) != 0) {
    if (!build(a->dispatch_first_pass, a->dispatch_passes)) return false;
    table->dispatch_first[agent] = a->dispatch_first_pass;
    table->dispatch_passes[agent] = a->dispatch_passes;
  }
  bool sampled = id < ROCATTACH_PLAN_MAX_AGENTS &&
                 (state.plan.sample_agents[id / 64] >> (id % 64) & 1) != 0;
  if ((kinds & ROCATTACH_PLAN_RECORD_SAMPLES) != 0 && sampled) {
    if (!build(a->sampler_first_pass, a->sampler_passes)) return false;
    table->sampler_first[agent] = a->sampler_first_pass;
    table->sampler_passes[agent] = a->sampler_passes;
  }
  return true;
}

rocattach_sdk_counter_id SdkConfigs::CounterOf(const PlanState& state, uint32_t agent,
                                               const rocattach_plan_pass& pass,
                                               uint32_t place, PlanResult* result) {
  auto index_at = [&](uint32_t i) {
    return state.plan.pass_counters[pass.first_counter + i];
  };
  auto name_at = [&](uint32_t i) { return state.plan.counter_name[index_at(i)]; };
  const char* name = name_at(place);
  const bool follows = strncmp(name, kFollower, strlen(kFollower)) == 0;
  if (follows && place == 0) {
    *result =
        PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_COUNTER, 0,
                          "%s has no counter before it that it could add up", name);
    return {0};
  }
  char leader[ROCATTACH_PLAN_NAME_BYTES];
  const char* follower = name;
  if (follows) {
    snprintf(leader, sizeof(leader), "%s", name_at(place - 1));
  } else {
    const rocattach_sdk_counter_id id = agents_->FindCounter(agent, name);
    if (id.handle != 0) return id;
    if (!IsAccumulated(name, leader)) {
      *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_COUNTER,
                                  ROCATTACH_SDK_STATUS_ERROR_COUNTER_NOT_FOUND,
                                  "the SDK of this process has no counter %s for %s",
                                  name, agents_->at(agent).name);
      result->counter = 1u + index_at(place);
      return id;
    }
    follower = "SQ_ACCUM_PREV_HIRES";
  }
  rocattach_sdk_status status;
  const rocattach_sdk_counter_id id =
      agents_->FindAccumulator(agent, leader, follower, &status);
  if (id.handle != 0) return id;
  *result = follows
                ? PlanResult::Error(
                      ROCATTACH_PLAN_ERROR_NO_COUNTER, status,
                      "the SDK of this process cannot add up %s over time for %s on "
                      "%s: %s",
                      leader, name, agents_->at(agent).name, StatusName(*sdk_, status))
                : PlanResult::Error(
                      ROCATTACH_PLAN_ERROR_NO_COUNTER, status,
                      "the SDK of this process has no counter %s for %s, since it "
                      "cannot add up %s over time: %s",
                      name, agents_->at(agent).name, leader, StatusName(*sdk_, status));
  if (!follows) result->counter = 1u + index_at(place);
  return id;
}

bool SdkConfigs::BuildPass(const PlanState& state, uint32_t agent, uint32_t pass_index,
                           SdkPassTable* table, PlanResult* result) {
  const rocattach_plan_pass& pass = state.plan.pass[pass_index];
  rocattach_sdk_counter_id ids[PlanSet::kMaxPassCounters];
  for (uint32_t i = 0; i < pass.counters; ++i) {
    ids[i] = CounterOf(state, agent, pass, i, result);
    if (ids[i].handle == 0) return false;
    if ((state.plan.record_kinds & ROCATTACH_PLAN_RECORD_INSTANCES) != 0) {
      dimensions_.Learn(*sdk_, ids[i]);
    }
  }
  // Newer SDKs are not known to mix them up.
  if (sdk_->create_counter == nullptr && MixesUp(state, pass, result)) return false;
  static_assert(sizeof(ids[0]) == sizeof(uint64_t));
  auto* counters = reinterpret_cast<const uint64_t*>(ids);
  uint32_t place = Find(agent, counters, pass.counters);
  if (place == SdkPassTable::kNoConfig) {
    place = FreePlace(state.generation);
    if (place == SdkPassTable::kNoConfig) {
      *result = PlanResult::Error(ROCATTACH_PLAN_ERROR_NO_MEMORY, 0,
                                  "more than %u passes on all GPUs", kMaxConfigs);
      return false;
    }
    rocattach_sdk_counter_config_id handle = {0};
    rocattach_sdk_status status =
        sdk_->create_counter_config(agents_->at(agent).id, ids, pass.counters, &handle);
    if (status != ROCATTACH_SDK_STATUS_SUCCESS) {
      *result = Refusal(state, agent, pass, status);
      return false;
    }
    SdkConfig& config = configs_[place];
    config.agent = agent;
    config.count = pass.counters;
    memcpy(config.counters, counters, pass.counters * sizeof(uint64_t));
    orders_[place].Forget();
    StoreRelease(&config.handle, handle.handle);
  }
  configs_[place].used = state.generation;
  table->config[agent][pass_index] = place;
  return true;
}

uint32_t SdkConfigs::Find(uint32_t agent, const uint64_t* counters,
                          uint32_t count) const {
  for (uint32_t i = 0; i < used_; ++i) {
    const SdkConfig& c = configs_[i];
    if (c.handle != 0 && c.agent == agent && c.count == count &&
        memcmp(c.counters, counters, count * sizeof(uint64_t)) == 0) {
      return i;
    }
  }
  return SdkPassTable::kNoConfig;
}

// A free slot, or that of a config which no plan has used for a while; slots of the
// plan that is being built, or of a held plan, are never reused.
uint32_t SdkConfigs::FreePlace(uint64_t generation) {
  constexpr uint32_t kKeep = 256;
  if (used_ < kKeep) return used_++;
  uint32_t oldest = SdkPassTable::kNoConfig;
  const uint64_t held = plans_->OldestKept();
  for (uint32_t i = 0; i < used_; ++i) {
    const SdkConfig& c = configs_[i];
    if (c.handle == 0) return i;
    if (c.used == generation || c.used >= held) continue;
    if (oldest == SdkPassTable::kNoConfig || c.used < configs_[oldest].used) oldest = i;
  }
  if (oldest != SdkPassTable::kNoConfig && Destroy(oldest)) return oldest;
  return used_ < kMaxConfigs ? used_++ : SdkPassTable::kNoConfig;
}

// Ordering against a dispatch that is choosing this config: it holds its plan, and then
// reads the handle; here the handle is withdrawn, and then the held plans are checked.
// False: the dispatch came first, so the config stays.
bool SdkConfigs::Destroy(uint32_t place) {
  SdkConfig& config = configs_[place];
  const uint64_t handle = LoadRelaxed(&config.handle);
  StoreRelaxed(&config.handle, uint64_t{0});
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (config.used >= plans_->OldestKept()) {
    StoreRelease(&config.handle, handle);
    return false;
  }
  sdk_->destroy_counter_config({handle});
  return true;
}

PlanResult SdkConfigs::Refusal(const PlanState& state, uint32_t agent,
                               const rocattach_plan_pass& pass,
                               rocattach_sdk_status status) const {
  char names[160] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < pass.counters; ++i) {
    const char* name =
        state.plan.counter_name[state.plan.pass_counters[pass.first_counter + i]];
    if (used + strlen(name) + 6 > sizeof(names)) {
      snprintf(names + used, sizeof(names) - used, " ...");
      break;
    }
    used += static_cast<size_t>(
        snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : " ", name));
  }
  rocattach_plan_error error = PlanErrorOf(status);
  return PlanResult::Error(error, status, "%s %s: %s", agents_->at(agent).name,
                           error == ROCATTACH_PLAN_ERROR_HW_LIMIT
                               ? "cannot count these in one pass"
                               : StatusName(*sdk_, status),
                           names);
}

}  // namespace rocattach::collector
