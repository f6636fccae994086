#include "userspace/counters/document.h"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/file.h"
#include "userspace/base/json.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::Status TooLarge(absl::string_view source, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", what));
}

// nlohmann's parser is not recursive, but the code that reads the tree is.
absl::Status CheckDepth(const Document& document, int depth, size_t& nodes,
                        absl::string_view source) {
  if (depth > kMaxDocumentDepth) return TooLarge(source, "nested too deeply");
  if (++nodes > kMaxDocumentNodes) return TooLarge(source, "has too many entries");
  if (!document.is_structured()) return absl::OkStatus();
  for (const Document& child : document) {
    RETURN_IF_ERROR(CheckDepth(child, depth + 1, nodes, source));
  }
  return absl::OkStatus();
}

Document Scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (text == "null" || text == "~" || text.empty()) return nullptr;
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  double number = 0;
  // "nan", "inf" and hexadecimal floats stay text, since they are not intended as
  // numbers.
  if (text.find_first_not_of("0123456789+-.eE") == std::string::npos &&
      absl::SimpleAtod(text, &number) && std::isfinite(number)) {
    return number;
  }
  return text;
}

absl::Status Convert(const YAML::Node& node, int depth, size_t& nodes,
                     absl::string_view source, Document& out) {
  if (depth > kMaxDocumentDepth) return TooLarge(source, "nested too deeply");
  if (++nodes > kMaxDocumentNodes) return TooLarge(source, "has too many entries");
  if (node.IsScalar()) {
    out = Scalar(node);
  } else if (node.IsSequence()) {
    out = Document::array();
    for (const YAML::Node& child : node) {
      out.push_back(nullptr);
      RETURN_IF_ERROR(Convert(child, depth + 1, nodes, source, out.back()));
    }
  } else if (node.IsMap()) {
    out = Document::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s:%d: a key must be a word", source, entry.first.Mark().line + 1));
      }
      Document value;
      RETURN_IF_ERROR(Convert(entry.second, depth + 1, nodes, source, value));
      out[entry.first.Scalar()] = std::move(value);
    }
  } else {
    out = nullptr;
  }
  return absl::OkStatus();
}

absl::Status CheckText(absl::string_view text, absl::string_view source) {
  if (text.size() > kMaxDocumentBytes) return TooLarge(source, "is larger than 4 MiB");
  if (text.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": is not a text file"));
  }
  // yaml-cpp and nlohmann both recurse somewhere; refuse deep nesting before that.
  int depth = 0;
  for (char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > 8 * kMaxDocumentDepth) return TooLarge(source, "nested too deeply");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Document> ParseJson(absl::string_view text, absl::string_view source) {
  RETURN_IF_ERROR(CheckText(text, source));
  Document document;
  try {
    document = Document::parse(text.begin(), text.end(), /*cb=*/nullptr,
                               /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", error.what()));
  }
  size_t nodes = 0;
  RETURN_IF_ERROR(CheckDepth(document, 0, nodes, source));
  return document;
}

absl::StatusOr<Document> ParseYaml(absl::string_view text, absl::string_view source) {
  RETURN_IF_ERROR(CheckText(text, source));
  Document document;
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    size_t nodes = 0;
    RETURN_IF_ERROR(Convert(root, 0, nodes, source, document));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s:%d: %s", source, error.mark.line + 1, error.msg));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", error.what()));
  }
  return document;
}

absl::StatusOr<Document> ReadDocument(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxDocumentBytes));
  return absl::EndsWith(path, ".json") ? ParseJson(text, path) : ParseYaml(text, path);
}

}  // namespace rocattach
