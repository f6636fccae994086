#include "userspace/cli/options/help_groups.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "userspace/cli/options/help_formatter.h"

namespace rocattach {
namespace {

constexpr const char* kGroups[] = {kWatchGroup,   kRecordGroup, kCounterGroup,
                                   kSessionGroup, kOutputGroup, kLimitGroup};
// The group of --help and --version.
constexpr char kOtherGroup[] = "Other";

class TwoLengths : public HelpFormatter {
 public:
  // `column`: that of the formatter that this one replaces.
  TwoLengths(std::set<const CLI::Option*> everyday, size_t column)
      : everyday_(std::move(everyday)) {
    column_width(column);
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
    const bool all = mode == CLI::AppFormatMode::All;
    std::string help = absl::StrCat(make_description(app), make_usage(app, name),
                                    make_positionals(app));
    for (const char* group : kGroups) absl::StrAppend(&help, Group(*app, group, all));
    absl::StrAppend(&help, Group(*app, kOtherGroup, all));
    if (!all) {
      absl::StrAppend(&help, "\nThese are the everyday options. '", name,
                      " --help-all' shows all of them.\n");
    }
    return absl::StrCat(help, make_subcommands(app, mode), "\n", make_footer(app));
  }

 private:
  std::string Group(const CLI::App& app, const std::string& group, bool all) const {
    const std::vector<const CLI::Option*> options =
        app.get_options([&](const CLI::Option* option) {
          return option->nonpositional() && option->get_group() == group &&
                 (all || everyday_.count(option) != 0);
        });
    return options.empty() ? std::string() : make_group(group, false, options);
  }

  const std::set<const CLI::Option*> everyday_;
};

}  // namespace

void StartGroup(CLI::App* app, const char* group) {
  app->option_defaults()->group(group);
}

void ShortenHelp(CLI::App* app, const std::vector<std::string>& everyday) {
  CLI::Option* all =
      app->set_help_all_flag("--help-all", "Print this help with every option");
  std::set<const CLI::Option*> shown;
  for (CLI::Option* option : {app->get_help_ptr(), all, app->get_version_ptr()}) {
    if (option == nullptr) continue;
    option->group(kOtherGroup);
    shown.insert(option);
  }
  for (const std::string& name : everyday) shown.insert(app->get_option(name));
  app->formatter(std::make_shared<TwoLengths>(
      std::move(shown), app->get_formatter()->get_column_width()));
}

}  // namespace rocattach
