#include "userspace/gpus/drm_clients.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/gpus/number_file.h"

namespace rocattach {
namespace {

constexpr size_t kMostEngineName = 16;
constexpr size_t kMostAddressBytes = 16;

bool IsPlain(absl::string_view text, absl::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::StrContains(others, c);
  });
}

// "12 KiB": bytes.
std::optional<uint64_t> Bytes(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  if (parts.empty() || parts.size() > 2) return std::nullopt;
  const auto number = NumberIn(parts[0]);
  if (!number.has_value()) return std::nullopt;
  uint64_t unit = 1;
  if (parts.size() == 2) {
    if (parts[1] == "KiB") {
      unit = uint64_t{1} << 10;
    } else if (parts[1] == "MiB") {
      unit = uint64_t{1} << 20;
    } else {
      return std::nullopt;
    }
  }
  if (*number > UINT64_MAX / unit) return std::nullopt;
  return *number * unit;
}

void AddEngine(absl::string_view name, absl::string_view value, DrmClient* client) {
  // "drm-engine-capacity-NAME" is no time.
  if (absl::StartsWith(name, "capacity-") || name.empty() ||
      name.size() > kMostEngineName || !IsPlain(name, "_-") ||
      client->engine_ns.size() >= kMostEngines) {
    return;
  }
  if (!absl::ConsumeSuffix(&value, " ns")) return;
  if (const auto ns = NumberIn(value)) client->engine_ns[std::string(name)] = *ns;
}

std::optional<uint32_t> RenderMinor(absl::string_view path) {
  uint32_t minor = 0;
  if (!absl::ConsumePrefix(&path, "/dev/dri/renderD") ||
      !absl::SimpleAtoi(path, &minor)) {
    return std::nullopt;
  }
  return minor;
}

}  // namespace

std::optional<DrmClient> ParseFdInfo(absl::string_view text) {
  DrmClient client;
  bool is_amd = false, has_id = false;
  std::optional<uint64_t> resident;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    absl::string_view name = pair.first;
    const absl::string_view value = absl::StripAsciiWhitespace(pair.second);
    if (name == "drm-driver") {
      is_amd = value == "amdgpu";
    } else if (name == "drm-client-id") {
      const auto id = NumberIn(value);
      has_id = id.has_value();
      client.id = id.value_or(0);
    } else if (name == "drm-pdev") {
      if (value.size() <= kMostAddressBytes && IsPlain(value, ":.")) {
        client.pci = std::string(value);
      }
    } else if (name == "drm-memory-vram") {
      client.vram_bytes = Bytes(value);
    } else if (name == "drm-resident-vram") {
      resident = Bytes(value);
    } else if (absl::ConsumePrefix(&name, "drm-engine-")) {
      AddEngine(name, value, &client);
    }
  }
  if (!is_amd || !has_id) return std::nullopt;
  if (!client.vram_bytes.has_value()) client.vram_bytes = resident;
  return client;
}

DrmScan ReadDrmClients(const GpuRoots& roots, pid_t pid, size_t* room) {
  DrmScan scan;
  const std::string folder = absl::StrCat(roots.proc, "/", pid);
  const auto names = ListFolder(folder + "/fd", *room);
  if (!names.ok()) {
    scan.unreadable = !absl::IsNotFound(names.status());
    return scan;
  }
  scan.cut = names->cut;
  *room -= names->names.size();
  for (const std::string& name : names->names) {
    // Most descriptors are of other files; their names cost less than their contents.
    const auto path = ReadLink(absl::StrCat(folder, "/fd/", name));
    if (!path.ok() || !absl::StartsWith(*path, "/dev/dri/")) continue;
    const auto text =
        ReadFile(absl::StrCat(folder, "/fdinfo/", name), kMostFdInfoBytes);
    if (!text.ok()) continue;
    auto client = ParseFdInfo(*text);
    if (!client.has_value()) continue;
    client->render_minor = RenderMinor(*path);
    scan.clients.push_back(*std::move(client));
  }
  return scan;
}

}  // namespace rocattach
