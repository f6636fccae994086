// Checks whether a filter is valid, before any process is considered.
#ifndef ROCATTACH_USERSPACE_SESSION_FILTER_CHECK_H_
#define ROCATTACH_USERSPACE_SESSION_FILTER_CHECK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "userspace/counters/catalog.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Checks in this order: FILTER_NOT_SUPPORTED for kinds that are not offered;
// FILTER_DATA_CORRUPTED for invalid data (nothing to collect, empty names, malformed
// expressions, backward ranges, a sampling interval of 0); SESSION_FILTER_DATA_MISMATCH
// for conditions that this kind does not have; COUNTER_NOT_FOUND for counters that no
// architecture has; INVALID_DOMAIN_ID and INCORRECT_DOMAIN for API domains;
// INVALID_OPERATION_ID for functions.
absl::Status CheckFilter(const FilterSpec& spec, const CounterCatalog& catalog,
                         SessionBackend& backend);

// Bytes of the largest record that the filter can cause.
size_t RecordBytes(const FilterSpec& spec);

// Bytes of the smallest possible record.
size_t SmallestRecordBytes();
// The mode that such a filter belongs to.
SessionMode ModeOf(FilterKind kind);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_FILTER_CHECK_H_
