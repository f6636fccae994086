#include "userspace/doctor/output.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/base/json.h"
#include "userspace/base/version.h"

namespace rocattach {
namespace {

constexpr size_t kStateColumn = 11;

const char* Color(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "\033[32m";
    case CheckState::kNote:
      return "\033[36m";
    case CheckState::kUnchecked:
    case CheckState::kWarning:
      return "\033[33m";
    case CheckState::kFailed:
      return "\033[1;31m";
  }
  return "";
}

// Text from the machine must not control the terminal.
std::string Printable(const std::string& text) {
  std::string clean = text;
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\n' ? '\n' : '?';
  }
  return clean;
}

// Breaks `text` at blanks so that no line is longer than `width`; lines after the first
// begin with `indent` blanks. A word that is longer stays whole.
std::string Wrap(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  bool first_line = true;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(Printable(text), '\n'))) {
    if (!first_line) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
    }
    first_line = false;
    bool first_word = true;
    for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      if (!first_word && column + 1 + word.size() > width) {
        absl::StrAppend(&out, "\n", std::string(indent, ' '));
        column = indent;
        first_word = true;
      }
      if (!first_word) {
        out += ' ';
        ++column;
      }
      absl::StrAppend(&out, word);
      column += word.size();
      first_word = false;
    }
  }
  return out;
}

std::string StateWord(CheckState state, bool color) {
  std::string word(CheckStateName(state));
  std::string pad(kStateColumn - word.size(), ' ');
  if (!color) return word + pad;
  return absl::StrCat(Color(state), word, "\033[0m", pad);
}

void AppendCheck(const Check& check, size_t name_width,
                 const DoctorTextOptions& options, std::string* out) {
  const size_t indent = kStateColumn + name_width + 2;
  absl::StrAppend(out, StateWord(check.state, options.color), check.name,
                  std::string(name_width + 2 - check.name.size(), ' '),
                  Wrap(check.found, indent, options.width), "\n");
  const bool quiet = check.state == CheckState::kOk && !options.verbose;
  const std::string margin(indent, ' ');
  for (const CheckItem& item : check.items) {
    if (quiet && item.state == CheckState::kOk && check.name == "capabilities")
      continue;
    if (!options.verbose && item.state == CheckState::kOk &&
        check.state > CheckState::kNote) {
      continue;
    }
    std::string line =
        item.found.empty() ? item.name : absl::StrCat(item.name, ": ", item.found);
    absl::StrAppend(out, margin, "- ", Wrap(line, indent + 2, options.width), "\n");
  }
  if (quiet) return;
  if (!check.meaning.empty()) {
    absl::StrAppend(out, margin, Wrap(check.meaning, indent, options.width), "\n");
  }
  if (!check.remedy.empty()) {
    absl::StrAppend(out, margin, "-> ", Wrap(check.remedy, indent + 3, options.width),
                    "\n");
  }
}

Json ToJson(const CheckItem& item) {
  return {{"name", item.name},
          {"state", std::string(CheckStateName(item.state))},
          {"found", item.found}};
}

Json ToJson(const Check& check) {
  Json items = Json::array();
  for (const CheckItem& item : check.items) items.push_back(ToJson(item));
  return {{"name", check.name},     {"state", std::string(CheckStateName(check.state))},
          {"found", check.found},   {"meaning", check.meaning},
          {"remedy", check.remedy}, {"items", std::move(items)}};
}

}  // namespace

std::string DoctorText(const DoctorReport& report, const DoctorTextOptions& options) {
  size_t name_width = 0;
  for (const Check& check : report.checks) {
    name_width = std::max(name_width, check.name.size());
  }
  std::string out;
  for (const Check& check : report.checks) {
    AppendCheck(check, name_width, options, &out);
  }
  DoctorVerdict verdict = report.verdict();
  CheckState state = verdict == DoctorVerdict::kFull      ? CheckState::kOk
                     : verdict == DoctorVerdict::kPartial ? CheckState::kWarning
                                                          : CheckState::kFailed;
  std::string help(DoctorVerdictHelp(verdict));
  // The checks on which the verdict is based.
  std::vector<std::string> names;
  for (const Check& check : report.checks) {
    bool failed = check.state == CheckState::kFailed;
    if (failed ||
        (verdict == DoctorVerdict::kPartial && check.state >= CheckState::kUnchecked)) {
      names.push_back(check.name);
    }
  }
  if (!names.empty()) absl::StrAppend(&help, ": ", absl::StrJoin(names, ", "));
  absl::StrAppend(&out, "\n", options.color ? Color(state) : "", help,
                  options.color ? "\033[0m" : "", "\n");
  return out;
}

std::string DoctorJson(const DoctorReport& report) {
  Json checks = Json::array();
  for (const Check& check : report.checks) checks.push_back(ToJson(check));
  Json json = {{"version", ROCATTACH_VERSION},
               {"verdict", std::string(DoctorVerdictName(report.verdict()))},
               {"summary", std::string(DoctorVerdictHelp(report.verdict()))},
               {"exit_status", report.exit_status()},
               {"checks", std::move(checks)}};
  // Paths are bytes, JSON is UTF-8.
  return DumpJson(json, /*indent=*/2) + "\n";
}

}  // namespace rocattach
