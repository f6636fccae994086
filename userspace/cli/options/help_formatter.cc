#include "userspace/cli/options/help_formatter.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "userspace/base/display_width.h"

namespace rocattach {
namespace {

constexpr size_t kWidest = 100;
// Narrower terminals break the lines themselves.
constexpr size_t kNarrowest = 60;

// CLI11 describes a value as TYPE or TYPE:CHECK, for example "UINT:INT in [1 - 1024]",
// "TEXT:{auto,sdk}", "SIZE:SIZE [b, kb(=1024b), ...]" or "ADDR:PORT".
struct ValueWords {
  std::string name;
  std::string range;  // "1 to 1024"
};

ValueWords WordsOf(const std::string& type) {
  std::string name = type, range;
  if (const size_t choices = type.find(":{"); choices != std::string::npos) {
    name = type.substr(choices + 1);
  } else if (const size_t limits = type.find(" in ["); limits != std::string::npos) {
    name = type.substr(0, type.rfind(':', limits));
    range = type.substr(limits + 5, type.rfind(']') - limits - 5);
    range = absl::StrReplaceAll(range, {{" - ", " to "}});
  } else if (const size_t units = type.find(" ["); units != std::string::npos) {
    name = type.substr(0, type.rfind(':', units));
  }
  if (name == "UINT" || name == "INT" || name == "FLOAT") name = "N";
  if (name == "TEXT") name = "VALUE";
  return {std::move(name), std::move(range)};
}

std::string NamesOf(const std::set<CLI::Option*>& options) {
  return absl::StrJoin(options, " and ", [](std::string* out, const CLI::Option* o) {
    absl::StrAppend(out, o->get_name());
  });
}

}  // namespace

size_t HelpWidth() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0) return 0;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::clamp<size_t>(size.ws_col, kNarrowest, kWidest);
}

std::string WrapText(absl::string_view text, size_t indent, size_t width) {
  const size_t room = width > indent ? width - indent : 1;
  std::vector<std::string> lines;
  for (absl::string_view paragraph : absl::StrSplit(text, '\n')) {
    for (std::string& line : WrapWidth(paragraph, width == 0 ? 0 : room, SIZE_MAX)) {
      lines.push_back(std::move(line));
    }
  }
  return absl::StrJoin(lines, absl::StrCat("\n", std::string(indent, ' ')));
}

std::string HelpFormatter::Entry(const std::string& name,
                                 const std::string& description) const {
  const std::string left = absl::StrCat("  ", name);
  const size_t used = DisplayWidth(left);
  if (description.empty()) return absl::StrCat(left, "\n");
  const std::string gap = used < column_width_
                              ? std::string(column_width_ - used, ' ')
                              : absl::StrCat("\n", std::string(column_width_, ' '));
  return absl::StrCat(left, gap, WrapText(description, column_width_, width_), "\n");
}

std::string HelpFormatter::make_option(const CLI::Option* option,
                                       bool is_positional) const {
  return Entry(
      absl::StrCat(make_option_name(option, is_positional), make_option_opts(option)),
      make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (!option->get_option_text().empty()) {
    return absl::StrCat(" ", option->get_option_text());
  }
  if (option->get_type_size() == 0) return "";
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  const std::string name = WordsOf(option->get_type_name()).name;
  return absl::StrCat(name.empty() ? "" : " ", name,
                      many && !absl::EndsWith(name, "…") ? "…" : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::vector<std::string> notes;
  if (option->get_type_size() != 0) {
    const ValueWords words = WordsOf(option->get_type_name());
    if (option->get_required()) notes.push_back("required");
    if (!words.range.empty()) notes.push_back(words.range);
    // A flag that is counted has one as well.
    if (!option->get_default_str().empty() && option->get_expected_max() != 0) {
      notes.push_back(absl::StrCat("default: ", option->get_default_str()));
    }
  }
  if (!option->get_needs().empty()) {
    notes.push_back(absl::StrCat("only with ", NamesOf(option->get_needs())));
  }
  if (!option->get_excludes().empty()) {
    notes.push_back(absl::StrCat("not with ", NamesOf(option->get_excludes())));
  }
  std::string description = option->get_description();
  if (notes.empty()) return description;
  return absl::StrCat(description, description.empty() ? "(" : " (",
                      absl::StrJoin(notes, "; "), ")");
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return Entry(command->get_display_name(true), command->get_description());
}

}  // namespace rocattach
