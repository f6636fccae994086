#include "userspace/cli/usage_error.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/nearest_names.h"

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

}  // namespace

std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* chosen = app;
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
  }
  std::string what = error.what();
  const std::vector<std::string> commands = CommandNames(*chosen);
  if (!commands.empty()) {
    if (const std::string word = FirstWord(*chosen); !word.empty()) {
      what = absl::StrCat("there is no command '", word, "'",
                          DidYouMean(NearestNames(word, commands, 2)));
    } else if (error.get_name() == "RequiredError") {
      what = "a command is missing";
    }
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
