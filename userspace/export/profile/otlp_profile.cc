// Profiles of the OpenTelemetry protocol 1.10: one resource for each process, with one
// profile for each sample type.
#include <limits>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "schemas/export/otlp_profile.pb.h"
#include "userspace/base/clock.h"
#include "userspace/base/version.h"
#include "userspace/export/profile/profile_data.h"

namespace rocattach {
namespace {

constexpr size_t kIdBytes = 16;

void SetText(const char* key, const std::string& text, otlp::Resource* resource) {
  if (text.empty()) return;
  otlp::KeyValue* attribute = resource->add_attributes();
  attribute->set_key(key);
  attribute->mutable_value()->set_string_value(text);
}

class OtlpProfileEncoder {
 public:
  explicit OtlpProfileEncoder(const ProfileData& data)
      : data_(data), dictionary_(*message_.mutable_dictionary()) {
    // The first entry of each table stands for "none", and is empty.
    dictionary_.add_mapping_table();
    dictionary_.add_location_table();
    dictionary_.add_function_table();
    dictionary_.add_link_table();
    dictionary_.add_attribute_table();
    dictionary_.add_stack_table();
    Text("");
  }

  otlp::ProfilesData Encode() {
    // Samples are in the order of their processes.
    size_t first = 0;
    for (uint32_t i = 0; i < data_.processes.size(); ++i) {
      size_t last = first;
      while (last < data_.samples.size() && data_.samples[last].process == i) ++last;
      AddProcess(data_.processes[i],
                 absl::MakeConstSpan(data_.samples).subspan(first, last - first));
      first = last;
    }
    return std::move(message_);
  }

 private:
  int32_t Text(const std::string& text) {
    const auto [position, added] =
        texts_.try_emplace(text, dictionary_.string_table_size());
    if (added) dictionary_.add_string_table(text);
    return position->second;
  }

  int32_t Attribute(const char* key, const std::string& text) {
    const auto [position, added] =
        attributes_.try_emplace({key, text}, dictionary_.attribute_table_size());
    if (added) {
      otlp::KeyValueAndUnit* attribute = dictionary_.add_attribute_table();
      attribute->set_key_strindex(Text(key));
      attribute->mutable_value()->set_string_value(text);
    }
    return position->second;
  }

  int32_t Mapping(const std::string& executable) {
    if (executable.empty()) return 0;
    const auto [position, added] =
        mappings_.try_emplace(executable, dictionary_.mapping_table_size());
    if (added) dictionary_.add_mapping_table()->set_filename_strindex(Text(executable));
    return position->second;
  }

  int32_t Function(uint32_t frame) {
    const auto [position, added] =
        functions_.try_emplace(frame, dictionary_.function_table_size());
    if (added) {
      const ProfileFrame& from = data_.frames[frame];
      otlp::Function* function = dictionary_.add_function_table();
      function->set_name_strindex(Text(from.name));
      function->set_system_name_strindex(Text(from.system_name));
    }
    return position->second;
  }

  int32_t Location(int32_t mapping, uint32_t frame) {
    const auto [position, added] =
        locations_.try_emplace({mapping, frame}, dictionary_.location_table_size());
    if (added) {
      const int32_t function = Function(frame);
      otlp::Location* location = dictionary_.add_location_table();
      location->set_mapping_index(mapping);
      location->add_lines()->set_function_index(function);
    }
    return position->second;
  }

  int32_t Stack(const ProfileProcess& process, const ProfileSample& sample) {
    std::vector<int32_t> locations;
    for (uint32_t frame : sample.frames) {
      locations.push_back(Location(Mapping(process.executable), frame));
    }
    const auto [position, added] =
        stacks_.try_emplace(locations, dictionary_.stack_table_size());
    if (added) {
      otlp::Stack* stack = dictionary_.add_stack_table();
      for (int32_t location : locations) stack->add_location_indices(location);
    }
    return position->second;
  }

  void SetResource(const ProfileProcess& process, otlp::Resource* resource) {
    SetText("service.name", process.name, resource);
    SetText("process.executable.name", process.name, resource);
    SetText("process.executable.path", process.executable, resource);
    SetText("container.id", process.container, resource);
    for (const auto& [name, value] : process.workload) {
      SetText(name.c_str(), value, resource);
    }
    SetText("host.name", process.host, resource);
    otlp::KeyValue* pid = resource->add_attributes();
    pid->set_key("process.pid");
    pid->mutable_value()->set_int_value(process.pid);
  }

  void AddProcess(const ProfileProcess& process,
                  absl::Span<const ProfileSample> samples) {
    // One profile for each sample type of which the process has values.
    std::map<uint32_t, otlp::Profile> profiles;
    for (const ProfileSample& sample : samples) {
      for (const auto& [which, total] : sample.totals) {
        otlp::Sample* added = profiles[which].add_samples();
        added->set_stack_index(Stack(process, sample));
        AddGpu(process, sample, added);
        added->add_values(total);
      }
    }
    // A process without any value is left out: readers reject a scope without profiles.
    if (profiles.empty()) return;
    otlp::ResourceProfiles* resource = message_.add_resource_profiles();
    SetResource(process, resource->mutable_resource());
    otlp::ScopeProfiles* scope = resource->add_scope_profiles();
    scope->mutable_scope()->set_name("rocattach");
    scope->mutable_scope()->set_version(ROCATTACH_VERSION);
    for (auto& [which, profile] : profiles) {
      Complete(process, which, &profile);
      *scope->add_profiles() = std::move(profile);
    }
  }

  void AddGpu(const ProfileProcess& process, const ProfileSample& from,
              otlp::Sample* sample) {
    if (from.gpu < 0) return;
    const ProfileGpu& gpu = process.gpus[static_cast<size_t>(from.gpu)];
    sample->add_attribute_indices(Attribute("hw.type", "gpu"));
    sample->add_attribute_indices(
        Attribute("hw.id", gpu.uuid.empty() ? gpu.label : gpu.uuid));
    sample->add_attribute_indices(Attribute("hw.name", gpu.label));
    sample->add_attribute_indices(
        Attribute("hw.model", gpu.product.empty() ? gpu.architecture : gpu.product));
  }

  void Complete(const ProfileProcess& process, uint32_t which, otlp::Profile* profile) {
    const auto [name, unit] = data_.TotalName(which);
    profile->mutable_sample_type()->set_type_strindex(Text(name));
    profile->mutable_sample_type()->set_unit_strindex(Text(unit));
    *profile->mutable_period_type() = profile->sample_type();
    profile->set_period(1);
    profile->set_time_unix_nano(process.begin_ns);
    profile->set_duration_nano(ElapsedNs(process.begin_ns, process.end_ns));
    profile->set_profile_id(NextId());
  }

  // Returns an id that is unique, and the same whenever this recording is converted.
  std::string NextId() {
    std::string id = data_.recording_id;
    id.resize(kIdBytes);
    uint64_t number = ++profiles_;
    for (size_t i = kIdBytes - 1; number != 0; --i, number >>= 8) {
      id[i] = static_cast<char>(id[i] ^ static_cast<char>(number & 0xff));
    }
    return id;
  }

  const ProfileData& data_;
  otlp::ProfilesData message_;
  otlp::ProfilesDictionary& dictionary_;
  absl::flat_hash_map<std::string, int32_t> texts_, mappings_;
  absl::flat_hash_map<std::pair<std::string, std::string>, int32_t> attributes_;
  absl::flat_hash_map<uint32_t, int32_t> functions_;
  absl::flat_hash_map<std::pair<int32_t, uint32_t>, int32_t> locations_;
  absl::flat_hash_map<std::vector<int32_t>, int32_t> stacks_;
  uint64_t profiles_ = 0;
};

}  // namespace

absl::StatusOr<std::string> EncodeOtlpProfile(const ProfileData& data) {
  const otlp::ProfilesData message = OtlpProfileEncoder(data).Encode();
  if (message.ByteSizeLong() > std::numeric_limits<int>::max()) {
    return absl::ResourceExhaustedError("the profiles would exceed 2 GiB");
  }
  return message.SerializeAsString();
}

}  // namespace rocattach
