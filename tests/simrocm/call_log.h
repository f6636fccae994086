// A log of the simulators' calls and actions, for tests that assert an order.
// Each event is one line, "NAME key=value key=value", appended to the file named by the
// environment variable SIMROCM_LOG; without the variable nothing is written.
// Lines of several processes may be mixed; each ends with pid and tid.
#ifndef ROCATTACH_TESTS_SIMROCM_CALL_LOG_H_
#define ROCATTACH_TESTS_SIMROCM_CALL_LOG_H_

namespace simrocm {

// Appends one event; printf-like. Thread-safe, and safe after fork().
[[gnu::format(printf, 1, 2)]] void Log(const char* format, ...);

// Prints to stderr what upstream would log as fatal, and aborts the process as it does.
[[noreturn, gnu::format(printf, 1, 2)]] void Fatal(const char* format, ...);

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_CALL_LOG_H_
