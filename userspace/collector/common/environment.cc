#include "userspace/collector/common/environment.h"

#include <string.h>

#include "userspace/collector/common/memory.h"

namespace rocattach::collector {
namespace {

constexpr char kHsaTools[] = "HSA_TOOLS_LIB=";
constexpr char kSdkTools[] = "ROCP_TOOL_LIBRARIES=";
constexpr char kBothTools[] = "HSA_TOOLS_ROCPROFILER_V1_TOOLS=";
constexpr char kForceLoad[] = "ROCPROFILER_REGISTER_FORCE_LOAD=";
constexpr char kSdkLibrary[] = "ROCPROFILER_REGISTER_LIBRARY=";
// Set by the SDK, and never unset, when it is loaded or when it is requested late.
constexpr const char* kSetBySdk[] = {kSdkLibrary, kForceLoad, kBothTools};

bool Is(const char* entry, const char* name) {
  return strncmp(entry, name, strlen(name)) == 0;
}

// Returns the first of several entries with this name, as getenv does.
char* FindEntry(char* const* array, const char* name) {
  for (; array != nullptr && *array != nullptr; ++array) {
    if (Is(*array, name)) return *array;
  }
  return nullptr;
}

char* Copy(char* at, const char* text) {
  size_t bytes = strlen(text);
  memcpy(at, text, bytes);
  return at + bytes;
}

// "HSA_TOOLS_LIB=<user's value> <path>", never freed.
char* MakeHsaEntry(const char* old_value, const char* path) {
  auto* entry = static_cast<char*>(AllocatePrivate(
      sizeof(kHsaTools) + strlen(old_value) + 1 + 2 * strlen(path) + 1));
  if (entry == nullptr) return nullptr;
  char* at = Copy(entry, kHsaTools);
  if (*old_value != '\0') {
    at = Copy(at, old_value);
    *at++ = ' ';
  }
  QuoteToolPath(path, at);
  return entry;
}

// "ROCP_TOOL_LIBRARIES=<user's value>:<path>:". SDKs drop what follows the last colon
// if there is any, so a list ends with one.
char* MakeSdkEntry(const char* old_value, const char* path) {
  size_t old_bytes = strlen(old_value);
  auto* entry = static_cast<char*>(
      AllocatePrivate(sizeof(kSdkTools) + old_bytes + strlen(path) + 3));
  if (entry == nullptr) return nullptr;
  char* at = Copy(entry, kSdkTools);
  if (old_bytes == 0) {
    Copy(at, path);
    return entry;
  }
  at = Copy(at, old_value);
  if (at[-1] != ':') *at++ = ':';
  at = Copy(at, path);
  *at = ':';
  return entry;
}

char* MakeEntry(const char* name, const char* value) {
  auto* entry = static_cast<char*>(AllocatePrivate(strlen(name) + strlen(value) + 1));
  if (entry != nullptr) Copy(Copy(entry, name), value);
  return entry;
}

}  // namespace

const char* FindVariable(char* const* array, const char* name) {
  const char* entry = FindEntry(array, name);
  return entry != nullptr ? entry + strlen(name) : nullptr;
}

size_t QuoteToolPath(const char* path, char* out) {
  size_t length = 0;
  for (; *path != '\0'; ++path) {
    if (*path == ' ' || *path == '"' || *path == '\\') out[length++] = '\\';
    out[length++] = *path;
  }
  out[length] = '\0';
  return length;
}

// Creates the entries; changes nothing visible.
bool Environment::MakeChanges(char** array, const char* path, ToolVariables variables) {
  count_changes_ = 0;
  auto add = [&](const char* name, char* entry) {
    changes_[count_changes_++] = {name, entry, FindEntry(array, name)};
    return entry != nullptr;
  };
  auto old_value = [&](const char* name) {
    const char* value = FindVariable(array, name);
    return value != nullptr ? value : "";
  };
  if (variables == ToolVariables::kLateSdk) {
    return add(kForceLoad, MakeEntry(kForceLoad, "1")) &&
           add(kSdkLibrary, MakeEntry(kSdkLibrary, path)) &&
           add(kBothTools, MakeEntry(kBothTools, "1"));
  }
  if (!add(kHsaTools, MakeHsaEntry(old_value(kHsaTools), path))) return false;
  if (variables == ToolVariables::kHsaTools) return true;
  if (variables == ToolVariables::kHsaToolsBesideSdk) {
    return FindEntry(array, kBothTools) != nullptr ||
           add(kBothTools, MakeEntry(kBothTools, "1"));
  }
  const char* tools = old_value(kSdkTools);
  if (!add(kSdkTools, MakeSdkEntry(tools, path))) return false;
  if (*tools != '\0' || FindEntry(array, kBothTools) != nullptr) return true;
  return add(kBothTools, MakeEntry(kBothTools, "1"));
}

// Sessions install the same variables over and over, and nothing is ever freed. The
// user's own values may have been rewritten in place: those are read again.
bool Environment::CanReinstall(char* const* array, const char* path,
                               ToolVariables variables) const {
  if (our_array_ == nullptr || array == nullptr || array != old_array_) return false;
  if (path != path_ || variables != variables_) return false;
  for (size_t c = 0; c < count_changes_; ++c) {
    if (changes_[c].old != nullptr) return false;
  }
  // Our array must still hold the user's entries followed by ours, unchanged.
  const size_t old_count = count_ - count_changes_;
  for (size_t i = 0; i < old_count; ++i) {
    if (array[i] != snapshot_[i]) return false;
  }
  return array[old_count] == nullptr && our_array_[count_] == nullptr &&
         memcmp(our_array_, snapshot_, count_ * sizeof(char*)) == 0;
}

int Environment::Install(const char* path, ToolVariables variables) {
  if (variables == ToolVariables::kSdk && strchr(path, ':') != nullptr) return EINVAL;
  TinyLockHolder hold(lock_);
  if (installed_ != 0) return 0;
  char** array = LoadAcquire(variable_);
  if (CanReinstall(array, path, variables)) {
    StoreRelease(variable_, our_array_);
    StoreRelease(&installed_, 1);
    return 0;
  }
  size_t count = 0;
  while (array != nullptr && array[count] != nullptr) ++count;
  size_t room = count + kMaxChanges;
  // The array, its terminator, and the snapshot after it.
  auto* copy = static_cast<char**>(AllocatePrivate((2 * room + 1) * sizeof(char*)));
  if (copy == nullptr) return ENOMEM;
  if (!MakeChanges(array, path, variables)) {
    our_array_ = nullptr;  // it does not match changes_
    return ENOMEM;
  }
  if (count != 0) memcpy(copy, array, count * sizeof(char*));
  for (size_t c = 0; c < count_changes_; ++c) {
    size_t at = 0;
    while (at < count && copy[at] != changes_[c].old) ++at;
    if (at == count) ++count;
    copy[at] = changes_[c].ours;
  }
  path_ = path;
  variables_ = variables;
  snapshot_ = copy + room + 1;
  memcpy(snapshot_, copy, count * sizeof(char*));
  old_array_ = array;
  our_array_ = copy;
  count_ = count;
  StoreRelease(variable_, copy);
  StoreRelease(&installed_, 1);
  return 0;
}

void Environment::Restore() {
  TinyLockHolder hold(lock_);
  if (installed_ == 0) return;
  StoreRelease(&installed_, 0);
  char** array = LoadAcquire(variable_);
  bool untouched = array == our_array_ && our_array_[count_] == nullptr &&
                   memcmp(our_array_, snapshot_, count_ * sizeof(char*)) == 0;
  if (untouched) {
    // A change between the check above and this store would be lost; setenv's lock is
    // not accessible, and the race lasts a few nanoseconds.
    StoreRelease(variable_, old_array_);
    return;
  }
  if (array != nullptr) RestoreInPlace(array);
}

bool Environment::LeftBySdk(const char* entry) const {
  if (variables_ != ToolVariables::kSdk) return false;
  for (const char* name : kSetBySdk) {
    if (Is(entry, name) && FindEntry(old_array_, name) == nullptr) return true;
  }
  return false;
}

void Environment::RestoreInPlace(char** array) {
  const bool late = variables_ == ToolVariables::kLateSdk;
  for (size_t i = 0; array[i] != nullptr;) {
    const Change* change = nullptr;
    for (size_t c = 0; c < count_changes_; ++c) {
      const Change& ours = changes_[c];
      if (array[i] == ours.ours || (late && Is(array[i], ours.name))) change = &ours;
    }
    if (change != nullptr && change->old != nullptr) {
      StoreRelease(&array[i], change->old);
    } else if (change != nullptr || LeftBySdk(array[i])) {
      // As unsetenv does: readers see every entry once or twice, but never miss one.
      for (size_t k = i; array[k] != nullptr; ++k) {
        StoreRelease(&array[k], array[k + 1]);
      }
      continue;
    }
    ++i;
  }
}

}  // namespace rocattach::collector
