// A profile as pprof reads it: one message, compressed with gzip.
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "schemas/export/pprof.pb.h"
#include "userspace/base/gzip.h"
#include "userspace/export/profile/profile_data.h"

namespace rocattach {
namespace {

class PprofEncoder {
 public:
  explicit PprofEncoder(const ProfileData& data) : data_(data) { Text(""); }

  pprof::Profile Encode() {
    for (uint32_t total = 0; total < data_.total_count(); ++total) {
      *profile_.add_sample_type() = Type(total);
    }
    *profile_.mutable_period_type() = Type(kTotalKernelTime);
    profile_.set_period(1);
    profile_.set_default_sample_type(profile_.sample_type(0).type());
    for (const ProfileFrame& frame : data_.frames) {
      pprof::Function* function = profile_.add_function();
      function->set_id(static_cast<uint64_t>(profile_.function_size()));
      function->set_name(Text(frame.name));
      function->set_system_name(
          Text(frame.system_name.empty() ? frame.name : frame.system_name));
    }
    for (const ProfileSample& sample : data_.samples) AddSample(sample);
    SetTimes();
    return std::move(profile_);
  }

 private:
  int64_t Text(const std::string& text) {
    const auto [position, added] =
        texts_.try_emplace(text, profile_.string_table_size());
    if (added) profile_.add_string_table(text);
    return position->second;
  }

  pprof::ValueType Type(uint32_t total) {
    const auto [name, unit] = data_.TotalName(total);
    pprof::ValueType type;
    type.set_type(Text(name));
    type.set_unit(Text(unit));
    return type;
  }

  // Returns the id of a function in an executable.
  uint64_t Location(const std::string& executable, uint32_t frame) {
    const uint64_t mapping = Mapping(executable);
    const auto [id, added] = locations_.try_emplace(
        {mapping, frame}, static_cast<uint64_t>(profile_.location_size()) + 1);
    if (added) {
      pprof::Location* location = profile_.add_location();
      location->set_id(id->second);
      location->set_mapping_id(mapping);
      location->add_line()->set_function_id(uint64_t{frame} + 1);
    }
    return id->second;
  }

  uint64_t Mapping(const std::string& executable) {
    const auto [id, added] = mappings_.try_emplace(
        executable, static_cast<uint64_t>(profile_.mapping_size()) + 1);
    if (added) {
      pprof::Mapping* mapping = profile_.add_mapping();
      mapping->set_id(id->second);
      mapping->set_filename(Text(executable));
      mapping->set_has_functions(true);
    }
    return id->second;
  }

  void AddSample(const ProfileSample& from) {
    const ProfileProcess& process = data_.processes[from.process];
    pprof::Sample* sample = profile_.add_sample();
    for (uint32_t frame : from.frames) {
      sample->add_location_id(Location(process.executable, frame));
    }
    sample->mutable_value()->Resize(static_cast<int>(data_.total_count()), 0);
    for (const auto& [which, total] : from.totals) {
      sample->set_value(static_cast<int>(which), total);
    }
    auto label = [&](const char* key, const std::string& text) {
      if (text.empty() || !data_.labels) return;
      pprof::Label* added = sample->add_label();
      added->set_key(Text(key));
      added->set_str(Text(text));
    };
    label("process", process.name);
    // As text: a number would be shown with a unit.
    label("pid", absl::StrCat(process.pid));
    label("host", process.host);
    label("container", process.container);
    for (const auto& [name, value] : process.workload) label(name.c_str(), value);
    if (from.gpu < 0) return;
    const ProfileGpu& gpu = process.gpus[static_cast<size_t>(from.gpu)];
    label("gpu", gpu.label);
    label("gpu_architecture", gpu.architecture);
    label("gpu_product", gpu.product);
    label("gpu_uuid", gpu.uuid);
  }

  void SetTimes() {
    uint64_t begin = 0, end = 0;
    for (const ProfileProcess& process : data_.processes) {
      if (process.begin_ns == 0) continue;
      if (begin == 0 || process.begin_ns < begin) begin = process.begin_ns;
      end = std::max(end, process.end_ns);
    }
    profile_.set_time_nanos(static_cast<int64_t>(begin));
    profile_.set_duration_nanos(static_cast<int64_t>(end - begin));
  }

  const ProfileData& data_;
  pprof::Profile profile_;
  absl::flat_hash_map<std::string, int64_t> texts_;
  absl::flat_hash_map<std::string, uint64_t> mappings_;
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint64_t> locations_;
};

}  // namespace

absl::StatusOr<std::string> EncodePprof(const ProfileData& data) {
  const pprof::Profile profile = PprofEncoder(data).Encode();
  if (profile.ByteSizeLong() > std::numeric_limits<int>::max()) {
    return absl::ResourceExhaustedError("the profile would exceed 2 GiB");
  }
  return Gzip(profile.SerializeAsString(), GzipEffort::kFast);
}

}  // namespace rocattach
