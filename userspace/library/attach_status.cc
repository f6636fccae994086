// The names and texts of the values of rocattach_status_t, and the version.
#include <iterator>

#include "userspace/base/version.h"
#include "userspace/library/rocattach.h"

namespace {

struct StatusText {
  const char* name;
  const char* text;
};

constexpr StatusText kTexts[] = {
    {"ROCATTACH_STATUS_SUCCESS", "Success"},
    {"ROCATTACH_STATUS_ERROR", "The process could not be attached to or detached from"},
    {"ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT",
     "An argument, or a variable of the environment, is not valid"},
    {"ROCATTACH_STATUS_ERROR_NOT_SUPPORTED",
     "This process, or what was requested of it, is not supported"},
    {"ROCATTACH_STATUS_ERROR_PTRACE_ERROR",
     "The process could not be stopped, read or written"},
    {"ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED",
     "Attaching to this process is not permitted"},
    {"ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND", "There is no such process"},
};
static_assert(std::size(kTexts) == ROCATTACH_STATUS_LAST);

const StatusText* TextOf(rocattach_status_t status) {
  const int number = static_cast<int>(status);
  if (number < 0 || number >= ROCATTACH_STATUS_LAST) return nullptr;
  return &kTexts[number];
}

}  // namespace

rocattach_status_t rocattach_get_version(uint32_t* major, uint32_t* minor,
                                         uint32_t* patch) {
  if (major != nullptr) *major = ROCATTACH_VERSION_MAJOR;
  if (minor != nullptr) *minor = ROCATTACH_VERSION_MINOR;
  if (patch != nullptr) *patch = ROCATTACH_VERSION_PATCH;
  return ROCATTACH_STATUS_SUCCESS;
}

rocattach_status_t rocattach_get_version_triplet(rocattach_version_triplet_t* info) {
  if (info == nullptr) return ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT;
  return rocattach_get_version(&info->major, &info->minor, &info->patch);
}

const char* rocattach_get_status_name(rocattach_status_t status) {
  const StatusText* text = TextOf(status);
  return text == nullptr ? nullptr : text->name;
}

const char* rocattach_get_status_string(rocattach_status_t status) {
  const StatusText* text = TextOf(status);
  return text == nullptr ? nullptr : text->text;
}
