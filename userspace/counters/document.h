// JSON and YAML files of users, read into one tree with limits on size, depth and
// number of nodes, so that no file can exhaust the service.
#ifndef ROCATTACH_USERSPACE_COUNTERS_DOCUMENT_H_
#define ROCATTACH_USERSPACE_COUNTERS_DOCUMENT_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/json.h"

namespace rocattach {

// Keys keep the order of the file.
using Document = Json;

inline constexpr size_t kMaxDocumentBytes = 4u << 20;
inline constexpr int kMaxDocumentDepth = 32;
inline constexpr size_t kMaxDocumentNodes = 200'000;

// Parses one JSON document; comments (// and /* */) are allowed. Errors name `source`.
absl::StatusOr<Document> ParseJson(absl::string_view text, absl::string_view source);

// Parses one YAML document. Plain scalars become booleans (true, false), numbers or
// null where they look like it; quoted ones stay strings. Anchors and aliases are
// followed, each use counts towards the limit of nodes. Errors name `source` and the
// line.
absl::StatusOr<Document> ParseYaml(absl::string_view text, absl::string_view source);

// Reads `path` and parses it as JSON if its name ends in ".json", else as YAML, of
// which JSON is a subset.
absl::StatusOr<Document> ReadDocument(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_DOCUMENT_H_
