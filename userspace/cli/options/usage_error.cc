#include "userspace/cli/options/usage_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/base/nearest_names.h"
#include "userspace/cli/options/rocm_options.h"

namespace rocattach {
namespace {

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  return names;
}

// The first word that could be meant as a command; empty: none was given.
std::string FirstWord(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    if (!absl::StartsWith(word, "-")) return word;
  }
  return "";
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

bool IsOption(absl::string_view word) {
  return word.size() >= 2 && word[0] == '-' && word != "--";
}

// Of the words that the command did not expect, in the order in which they were given:
// the options, each once and without a value.
std::vector<std::string> UnknownOptions(const CLI::App& program) {
  std::vector<std::string> options;
  for (const std::string& word : program.remaining(/*recurse=*/true)) {
    const std::string name = word.substr(0, word.find('='));
    const bool known = std::find(options.begin(), options.end(), name) != options.end();
    if (IsOption(word) && !known) options.push_back(name);
  }
  return options;
}

// A line for each of them.
std::string UnknownOptionsText(const CLI::App& program, const CLI::App& command) {
  const std::vector<std::string> known = OptionNames(command);
  // Elsewhere such names mean nothing in particular.
  const bool measures = std::find(known.begin(), known.end(), "block") != known.end();
  std::vector<std::string> lines;
  for (const std::string& option : UnknownOptions(program)) {
    std::string instead = measures ? RocmOptionText(option) : "";
    if (!instead.empty()) {
      lines.push_back(std::move(instead));
      continue;
    }
    std::vector<std::string> nearest;
    // A single letter is near to every other one.
    if (absl::StartsWith(option, "--")) {
      nearest = NearestNames(absl::StripPrefix(option, "--"), known, 2);
      for (std::string& name : nearest) name.insert(0, "--");
    }
    lines.push_back(absl::StrCat("there is no option ", option, DidYouMean(nearest)));
  }
  return absl::StrJoin(lines, absl::StrCat("\n", program.get_name(), ": "));
}

// The command that the words were for: "rocattach session start".
std::string FullName(const CLI::App& app) {
  const CLI::App* chosen = &app;
  std::string name = app.get_name();
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    absl::StrAppend(&name, " ", chosen->get_name());
  }
  return name;
}

// std::to_string, which CLI11 uses, gives every number with a fraction six decimals.
std::string WithoutTrailingZeros(const std::string& text) {
  std::vector<std::string> words = absl::StrSplit(text, ' ');
  for (std::string& word : words) {
    double number = 0;
    if (!absl::StrContains(word, '.') || !absl::SimpleAtod(word, &number)) continue;
    word.erase(word.find_last_not_of('0') + 1);
    if (absl::EndsWith(word, ".")) word.pop_back();
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* chosen = app;
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
  }
  std::string what = error.what();
  const std::vector<std::string> commands = CommandNames(*chosen);
  const std::vector<std::string> unexpected = app->remaining(/*recurse=*/true);
  const std::string word = FirstWord(*chosen);
  const bool option_first = !unexpected.empty() && IsOption(unexpected.front());
  if (!commands.empty() && !word.empty() && !option_first) {
    what = absl::StrCat("there is no command '", word, "'",
                        DidYouMean(NearestNames(word, commands, 2)));
  } else if (std::string unknown = UnknownOptionsText(*app, *chosen);
             !unknown.empty()) {
    // Whatever else is wrong may follow from an option that was misspelt.
    what = std::move(unknown);
  } else if (!commands.empty() && error.get_name() == "RequiredError") {
    what = "a command is missing";
  } else if (error.get_name() == "ExtrasError") {
    what = absl::StrCat("unexpected: ", absl::StrJoin(unexpected, " "));
  } else if (absl::StrContains(what, " not in range ")) {
    what = WithoutTrailingZeros(what);
  }
  const std::string name = FullName(*app);
  return absl::StrCat(app->get_name(), ": ", what, "\nRun '", name,
                      " --help' for more information.\n");
}

void LastValueWins(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const bool single = option->get_items_expected_max() == 1;
    if (single && !option->get_positional() &&
        option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw) {
      option->take_last();
    }
  }
  for (CLI::App* command : app->get_subcommands({})) LastValueWins(command);
}

}  // namespace rocattach
