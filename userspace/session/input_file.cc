#include "userspace/session/input_file.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"
#include "userspace/counters/request.h"
#include "userspace/session/number_ranges.h"

namespace rocattach {
namespace {

constexpr size_t kMaxJobs = 1024;

class JobReader {
 public:
  JobReader(const Document& node, std::string place)
      : node_(node), place_(std::move(place)) {}

  absl::StatusOr<InputJob> Read() {
    if (!node_.is_object()) return Bad("", "must be a map");
    for (const auto& [key, value] : node_.items()) RETURN_IF_ERROR(ReadKey(key, value));
    RETURN_IF_ERROR(ReadPeriods());
    return std::move(job_);
  }

 private:
  absl::Status Bad(absl::string_view key, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(place_, key.empty() ? "" : ", ", key, ": ", what));
  }

  absl::Status ReadKey(const std::string& key, const Document& value) {
    if (key == "pmc") {
      ASSIGN_OR_RETURN(const std::vector<std::string> words, Words(key, value));
      CounterNames group;
      for (const std::string& word : words) {
        for (std::string& name : SplitCounters(word)) group.push_back(std::move(name));
      }
      if (!group.empty()) job_.groups.push_back(std::move(group));
    } else if (key == "pmc_groups") {
      return ReadGroups(key, value);
    } else if (key == "pmc_group_interval") {
      if (!value.is_number_integer() || value.get<int64_t>() < 1) {
        return Bad(key, "must be a number of dispatches, at least 1");
      }
      job_.group_interval = static_cast<uint64_t>(value.get<int64_t>());
    } else if (key == "kernel_include_regex") {
      ASSIGN_OR_RETURN(job_.kernel_include, Patterns(key, value));
    } else if (key == "kernel_exclude_regex") {
      ASSIGN_OR_RETURN(job_.kernel_exclude, Patterns(key, value));
    } else if (key == "kernel_iteration_range") {
      ASSIGN_OR_RETURN(const std::vector<std::string> words, Words(key, value));
      for (const std::string& word : words) {
        if (absl::StripAsciiWhitespace(word).empty()) continue;
        auto ranges = ParseRanges(word);
        if (!ranges.ok()) return Bad(key, ranges.status().message());
        job_.iterations.insert(job_.iterations.end(), ranges->begin(), ranges->end());
      }
      job_.iterations = Normalize(std::move(job_.iterations));
    } else if (key == "extra_counters") {
      ASSIGN_OR_RETURN(job_.extra_counters, Patterns(key, value));
    } else if (absl::EndsWith(key, "_trace") || key == "stats") {
      if (!value.is_boolean()) return Bad(key, "must be true or false");
      if (value.get<bool>()) job_.traces.push_back(key);
    } else if (key != "collection_period" && key != "collection_period_unit") {
      job_.ignored.push_back(key);
    }
    return absl::OkStatus();
  }

  absl::Status ReadGroups(const std::string& key, const Document& value) {
    if (!value.is_array()) return Bad(key, "must be a list of lists of counters");
    for (const Document& entry : value) {
      ASSIGN_OR_RETURN(const std::vector<std::string> words, Words(key, entry));
      CounterNames group;
      for (const std::string& word : words) {
        for (std::string& name : SplitCounters(word)) group.push_back(std::move(name));
      }
      if (group.empty()) return Bad(key, "an empty group");
      job_.groups.push_back(std::move(group));
    }
    job_.keep_groups = true;
    return absl::OkStatus();
  }

  absl::Status ReadPeriods() {
    auto found = node_.find("collection_period");
    if (found == node_.end()) return absl::OkStatus();
    std::string unit = "sec";
    if (auto named = node_.find("collection_period_unit"); named != node_.end()) {
      if (!named->is_string()) return Bad("collection_period_unit", "must be a word");
      unit = named->get<std::string>();
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> words,
                     Words("collection_period", *found));
    for (const std::string& word : words) {
      for (absl::string_view text :
           absl::StrSplit(word, absl::ByAnyChar(" ,"), absl::SkipEmpty())) {
        auto period = ParseCollectionPeriod(text, unit);
        if (!period.ok()) return Bad("collection_period", period.status().message());
        job_.periods.push_back(*period);
      }
    }
    return absl::OkStatus();
  }

  // One word or a list of them; numbers are taken as written.
  absl::StatusOr<std::vector<std::string>> Words(absl::string_view key,
                                                 const Document& value) const {
    std::vector<std::string> words;
    auto add = [&](const Document& word) {
      if (word.is_string()) {
        words.push_back(word.get<std::string>());
      } else if (word.is_number()) {
        words.push_back(word.dump());
      } else {
        return false;
      }
      return true;
    };
    if (value.is_null()) return words;
    if (!value.is_array()) {
      if (!add(value)) return Bad(key, "must be words");
      return words;
    }
    for (const Document& word : value) {
      if (!add(word)) return Bad(key, "must be a list of words");
    }
    return words;
  }

  // The same without the empty ones, which mean "not given".
  absl::StatusOr<std::vector<std::string>> Patterns(absl::string_view key,
                                                    const Document& value) const {
    ASSIGN_OR_RETURN(std::vector<std::string> words, Words(key, value));
    std::erase(words, "");
    return words;
  }

  const Document& node_;
  std::string place_;
  InputJob job_;
};

}  // namespace

absl::StatusOr<std::vector<InputJob>> ParseInput(const Document& document,
                                                 absl::string_view source) {
  std::vector<InputJob> jobs;
  auto add = [&](const Document& node, std::string place) -> absl::Status {
    ASSIGN_OR_RETURN(jobs.emplace_back(), JobReader(node, std::move(place)).Read());
    return absl::OkStatus();
  };
  if (!document.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": expected a map with jobs"));
  }
  auto list = document.find("jobs");
  if (list == document.end()) {
    RETURN_IF_ERROR(add(document, std::string(source)));
    return jobs;
  }
  if (!list->is_array() || list->empty() || list->size() > kMaxJobs) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": \"jobs\" must be a list of 1 to ", kMaxJobs, " jobs"));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    RETURN_IF_ERROR(add((*list)[i], absl::StrCat(source, ": job ", i + 1)));
  }
  return jobs;
}

absl::StatusOr<std::vector<InputJob>> ParseTextInput(absl::string_view text,
                                                     absl::string_view source) {
  std::vector<InputJob> jobs;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos ||
        absl::StripAsciiWhitespace(line.substr(0, colon)) != "pmc") {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ":", number, ": expected \"pmc: COUNTER …\""));
    }
    InputJob job;
    CounterNames group = SplitCounters(line.substr(colon + 1));
    if (group.empty() || jobs.size() == kMaxJobs) {
      return absl::InvalidArgumentError(absl::StrCat(
          source, ":", number, group.empty() ? ": no counters" : ": too many lines"));
    }
    job.groups.push_back(std::move(group));
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": names no counters"));
  }
  return jobs;
}

absl::StatusOr<std::vector<InputJob>> ReadInputFile(const std::string& path) {
  if (absl::EndsWith(path, ".txt")) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxDocumentBytes));
    return ParseTextInput(text, path);
  }
  ASSIGN_OR_RETURN(const Document document, ReadDocument(path));
  return ParseInput(document, path);
}

}  // namespace rocattach
