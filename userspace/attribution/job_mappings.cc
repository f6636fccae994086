#include "userspace/attribution/job_mappings.h"

#include <pwd.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/attribution/safe_folder.h"
#include "userspace/base/clock.h"
#include "userspace/base/json.h"

namespace rocattach {
namespace {

constexpr size_t kMostJobs = 1024;  // per GPU
constexpr size_t kMostUserBytes = 256;
// Limit on a GPU's index, and the modulus in AMD's exporter, which numbers a partition
// by its index modulo kIndexModulo.
constexpr uint32_t kMostGpus = 1024, kIndexModulo = 128;

std::optional<uint32_t> DecimalIn(absl::string_view text) {
  uint32_t number = 0;
  // SimpleAtoi also accepts signs and white space; a number here has neither.
  if (text.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text.front())) ||
      !absl::ascii_isdigit(static_cast<unsigned char>(text.back())) ||
      !absl::SimpleAtoi(text, &number)) {
    return std::nullopt;
  }
  return number;
}

// A job's number as Slurm writes it, without leading zeros; unset if it is invalid.
std::optional<std::string> JobIn(absl::string_view text) {
  const auto number = DecimalIn(text);
  if (!number.has_value() || *number == 0) return std::nullopt;
  return absl::StrCat(*number);
}

// A string or a number, empty if there is no such key; unset if it is neither.
std::optional<std::string> TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_unsigned()) return absl::StrCat(found->get<uint64_t>());
  return std::nullopt;
}

// True if a list of GPUs ("0,1,4-7") contains this one; an empty list excludes none.
absl::StatusOr<bool> ListsGpu(absl::string_view list, uint32_t index) {
  if (list.empty()) return true;
  for (absl::string_view part : absl::StrSplit(list, ',')) {
    const std::vector<absl::string_view> ends =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('-', 1));
    const auto first = DecimalIn(ends.front()), last = DecimalIn(ends.back());
    if (!first.has_value() || !last.has_value() || *first > *last) {
      return absl::InvalidArgumentError("SLURM_JOB_GPUS is no list of GPUs");
    }
    if (index >= *first && index <= *last) return true;
    if (first == last && *first % kIndexModulo == index) return true;
  }
  return false;
}

absl::StatusOr<JobMapping> ParseJson(absl::string_view text, uint32_t index) {
  const std::optional<Json> object = ParseJsonObject(text);
  if (!object) return absl::InvalidArgumentError("is no JSON object");
  const auto id = TextOf(*object, "SLURM_JOB_ID");
  const auto user = TextOf(*object, "SLURM_JOB_USER");
  const auto gpus = TextOf(*object, "SLURM_JOB_GPUS");
  const auto job = JobIn(id.value_or(""));
  if (!job.has_value()) {
    return absl::InvalidArgumentError("SLURM_JOB_ID is no job's number");
  }
  if (!user.has_value() || user->size() > kMostUserBytes || !gpus.has_value()) {
    return absl::InvalidArgumentError(
        "SLURM_JOB_USER and SLURM_JOB_GPUS have to be texts");
  }
  const auto lists = ListsGpu(*gpus, index);
  if (!lists.ok()) return lists.status();
  if (!*lists) return absl::InvalidArgumentError("SLURM_JOB_GPUS has another GPU");
  return JobMapping{{*job}, *user};
}

absl::StatusOr<JobMapping> ParseLines(absl::string_view text) {
  JobMapping mapping;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    auto job = JobIn(line);
    if (!job.has_value() || mapping.jobs.size() == kMostJobs) {
      return absl::InvalidArgumentError("is no list of jobs' numbers");
    }
    mapping.jobs.insert(*std::move(job));
  }
  return mapping;
}

// Unset if this machine has no such user.
std::optional<uid_t> UidOf(const std::string& user) {
  if (const auto number = DecimalIn(user); number.has_value()) return *number;
  std::vector<char> buffer(16 << 10);
  passwd entry = {};
  passwd* found = nullptr;
  if (getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return std::nullopt;
  }
  return found->pw_uid;
}

}  // namespace

absl::StatusOr<JobMapping> ParseJobMapping(absl::string_view text, uint32_t index) {
  text = absl::StripAsciiWhitespace(text);
  return !text.empty() && text.front() == '{' ? ParseJson(text, index)
                                              : ParseLines(text);
}

absl::Status JobMappings::Refresh() {
  const uint64_t begin_ns = BootNs();
  std::map<uint32_t, Gpu> gpus;
  JobMappingFailures failures;
  absl::Status status;
  const auto folder = SafeFolder::Open(folder_);
  auto listing = folder.ok() ? folder->List(kMostFiles)
                             : absl::StatusOr<FolderListing>(folder.status());
  if (!listing.ok()) {
    ++failures.unreadable;
    status = listing.status();
    listing.emplace();
  }
  if (listing->cut) ++failures.crowded;
  for (const std::string& name : listing->names) {
    const auto index = DecimalIn(name);
    // Skips parts of a GPU ("0.1") and files of other programs.
    if (!index.has_value() || *index >= kMostGpus) continue;
    const auto text = folder->ReadTrusted(name, kMostFileBytes);
    if (!text.ok()) {
      // An epilog removes the file when its job ends.
      if (absl::IsNotFound(text.status())) continue;
      ++failures.unreadable;
      if (status.ok()) status = text.status();
      continue;
    }
    auto mapping = ParseJobMapping(*text, *index);
    if (!mapping.ok()) {
      ++failures.malformed;
      if (status.ok()) {
        status = absl::InvalidArgumentError(
            absl::StrCat(folder->path(), "/", name, ": ", mapping.status().message()));
      }
      continue;
    }
    Gpu& gpu = gpus[*index];
    gpu.jobs = std::move(mapping->jobs);
    gpu.has_user = !mapping->user.empty();
    if (gpu.has_user) gpu.uid = UidOf(mapping->user);
  }
  absl::MutexLock lock(&mutex_);
  failures_.unreadable += failures.unreadable;
  failures_.malformed += failures.malformed;
  failures_.crowded += failures.crowded;
  gpus_ = std::move(gpus);
  read_ns_ = begin_ns;
  return status;
}

JobMappings::Answer JobMappings::Find(const std::vector<uint32_t>& gpus, uid_t uid,
                                      uint64_t since_ns, std::string* job) const {
  absl::MutexLock lock(&mutex_);
  if (gpus.empty() || read_ns_ == 0 || read_ns_ < since_ns) return Answer::kUnknown;
  std::set<std::string> common;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const auto gpu = gpus_.find(gpus[i]);
    if (gpu == gpus_.end() || gpu->second.jobs.empty()) return Answer::kUnknown;
    if (gpu->second.has_user && gpu->second.uid != uid) return Answer::kAmbiguous;
    if (i == 0) {
      common = gpu->second.jobs;
      continue;
    }
    std::set<std::string> both;
    std::set_intersection(common.begin(), common.end(), gpu->second.jobs.begin(),
                          gpu->second.jobs.end(), std::inserter(both, both.end()));
    common = std::move(both);
  }
  if (common.size() != 1) return Answer::kAmbiguous;
  *job = *common.begin();
  return Answer::kFound;
}

JobMappingFailures JobMappings::failures() const {
  absl::MutexLock lock(&mutex_);
  return failures_;
}

}  // namespace rocattach
