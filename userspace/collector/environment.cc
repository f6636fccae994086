#include "userspace/collector/environment.h"

#include <string.h>

#include "userspace/collector/memory.h"

namespace rocattach::collector {
namespace {

constexpr char kName[] = "HSA_TOOLS_LIB=";
constexpr size_t kNameBytes = sizeof(kName) - 1;

bool IsToolsLib(const char* entry) {
  return strncmp(entry, kName, kNameBytes) == 0;
}

// "HSA_TOOLS_LIB=<user's value> <path>", never freed.
char* MakeEntry(const char* old_entry, const char* path) {
  const char* value = old_entry != nullptr ? old_entry + kNameBytes : "";
  size_t value_bytes = strlen(value);
  auto* entry = static_cast<char*>(
      AllocatePrivate(kNameBytes + value_bytes + 1 + 2 * strlen(path) + 1));
  if (entry == nullptr) return nullptr;
  char* at = entry;
  memcpy(at, kName, kNameBytes);
  at += kNameBytes;
  if (value_bytes != 0) {
    memcpy(at, value, value_bytes);
    at += value_bytes;
    *at++ = ' ';
  }
  QuoteToolPath(path, at);
  return entry;
}

}  // namespace

size_t QuoteToolPath(const char* path, char* out) {
  size_t length = 0;
  for (; *path != '\0'; ++path) {
    if (*path == ' ' || *path == '"' || *path == '\\') out[length++] = '\\';
    out[length++] = *path;
  }
  out[length] = '\0';
  return length;
}

int Environment::Install(const char* path) {
  TinyLockHolder hold(lock_);
  if (installed_ != 0) return 0;
  char** array = LoadAcquire(place_);
  size_t count = 0;
  size_t found = SIZE_MAX;
  for (; array != nullptr && array[count] != nullptr; ++count) {
    // Of duplicates getenv sees the first one.
    if (found == SIZE_MAX && IsToolsLib(array[count])) found = count;
  }
  char* old_entry = found == SIZE_MAX ? nullptr : array[found];
  size_t new_count = count + (found == SIZE_MAX ? 1 : 0);
  // Room for the array, its terminator and the snapshot behind it.
  auto* copy =
      static_cast<char**>(AllocatePrivate((2 * new_count + 1) * sizeof(char*)));
  char* entry = MakeEntry(old_entry, path);
  if (copy == nullptr || entry == nullptr) return ENOMEM;
  if (count != 0) memcpy(copy, array, count * sizeof(char*));
  copy[found == SIZE_MAX ? count : found] = entry;
  snapshot_ = copy + new_count + 1;
  memcpy(snapshot_, copy, new_count * sizeof(char*));
  old_array_ = array;
  our_array_ = copy;
  count_ = new_count;
  our_entry_ = entry;
  old_entry_ = old_entry;
  StoreRelease(place_, copy);
  StoreRelease(&installed_, 1);
  return 0;
}

void Environment::Restore() {
  TinyLockHolder hold(lock_);
  if (installed_ == 0) return;
  StoreRelease(&installed_, 0);
  char** array = LoadAcquire(place_);
  bool untouched = array == our_array_ && our_array_[count_] == nullptr &&
                   memcmp(our_array_, snapshot_, count_ * sizeof(char*)) == 0;
  if (untouched) {
    // A change between the look above and this store would be lost; no lock that
    // setenv takes is within reach, and the window is a few nanoseconds.
    StoreRelease(place_, old_array_);
    return;
  }
  if (array != nullptr) RestoreInPlace(array);
}

void Environment::RestoreInPlace(char** array) {
  for (size_t i = 0; array[i] != nullptr; ++i) {
    if (array[i] != our_entry_) continue;
    if (old_entry_ != nullptr) {
      StoreRelease(&array[i], old_entry_);
      return;
    }
    // As unsetenv does: readers see every entry once or twice, never none.
    for (; array[i] != nullptr; ++i) StoreRelease(&array[i], array[i + 1]);
    return;
  }
}

}  // namespace rocattach::collector
