// Layout of options in help: one line each for programs that read it, paragraphs of the
// terminal's width for people, and values in words.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_HELP_FORMATTER_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// Width of help: the terminal's width, up to 100 columns, if standard output is a
// terminal; else 0, and descriptions are not broken.
size_t HelpWidth();

// `text` in lines of at most `width` columns that follow a margin of `indent` columns,
// broken at blanks; its own line breaks are kept. 0: not broken.
std::string WrapText(absl::string_view text, size_t indent, size_t width);

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t width = HelpWidth()) : width_(width) {}

  // "  --threads N                 Attach windows … (1 to 1024; default: 64)".
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  // The text after the name: " N", " {auto,sdk,hsa}", " NAME…".
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string Entry(const std::string& name, const std::string& description) const;

  const size_t width_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_HELP_FORMATTER_H_
