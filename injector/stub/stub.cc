#include "injector/stub/stub.h"

#include <cpuid.h>
#include <signal.h>
#include <sys/random.h>

#include <cstring>

#include "absl/status/status.h"
#include "injector/process/mapped_collector.h"
#include "injector/stub/stub_frame.h"

extern "C" {
// stub_code.S
extern const char rocattach_stub_begin[];
extern const char rocattach_stub_parameters[];
extern const char rocattach_stub_end[];
// stub_by_descriptor.S
extern const char rocattach_descriptor_stub_begin[];
extern const char rocattach_descriptor_stub_socket_made[];
extern const char rocattach_descriptor_stub_socket_bound[];
extern const char rocattach_descriptor_stub_parameters[];
extern const char rocattach_descriptor_stub_end[];
}

namespace rocattach {
namespace {

// "RWATSTUB" as bytes in memory.
constexpr uint64_t kEndMark = 0x4255545354415752ull;

// Must agree with the labels at the end of stub_code.S; the sizes are compared in
// BuildStub, the offsets by the unit test.
struct StubParameters {
  uint64_t return_ip;
  uint64_t errno_location;
  uint64_t dlopen;
  uint64_t dlsym;
  uint64_t dlerror;
  uint64_t signal_mask;
  uint64_t load_lock;
  uint64_t list_lock;
  uint64_t mutex_trylock;
  uint64_t mutex_unlock;
  uint32_t xstate_bytes;
  uint32_t restart_flags;
  uint64_t behind_call;
  char start_name[40];
  rocattach_collector_config config;
  uint64_t end_mark;
};
static_assert(offsetof(rocattach_collector_config, collector_path) == 64 &&
                  sizeof(rocattach_collector_config) == 64 + 256 + 8,
              "stub_code.S has the path of the collector 64 bytes into the config");
static_assert(sizeof(ROCATTACH_COLLECTOR_START) <= 40);

// All signals except those of faults, which must be delivered at once, and SIGSETXID of
// glibc (setuid waits for its handler with a lock held that pthread_create in the
// collector may need). SIGCANCEL, 32, waits: a thread that is cancelled in read() would
// end inside dlopen, with the loader's lock.
constexpr uint64_t SignalBit(int signal) {
  return 1ull << (signal - 1);
}
constexpr uint64_t kSignalMask =
    ~(SignalBit(SIGSEGV) | SignalBit(SIGBUS) | SignalBit(SIGFPE) | SignalBit(SIGILL) |
      SignalBit(SIGTRAP) | SignalBit(SIGSYS) | SignalBit(SIGABRT) | SignalBit(33));

constexpr uint64_t kCallBytes = 2;  // size of the instruction syscall

// A handler with one of these flags does not end the call; 0: no handler ends it. kAll
// is a flag that no handler has: the kernel never gives it a meaning.
uint32_t RestartFlags(EndingHandlers ending) {
  constexpr uint32_t kUnsupported = 0x400;  // SA_UNSUPPORTED
  switch (ending) {
    case EndingHandlers::kNone:
      return 0;
    case EndingHandlers::kWithoutRestart:
      return SA_RESTART;
    case EndingHandlers::kAll:
      return kUnsupported;
  }
  return 0;
}

absl::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

absl::string_view CodeOf(StubKind kind) {
  return kind == StubKind::kByPath
             ? Between(rocattach_stub_begin, rocattach_stub_parameters)
             : Between(rocattach_descriptor_stub_begin,
                       rocattach_descriptor_stub_parameters);
}

// False if `room` does not begin with a stub of this kind.
bool ParametersOf(absl::string_view room, StubKind kind, StubParameters* parameters) {
  const absl::string_view code = CodeOf(kind);
  if (room.size() < code.size() + sizeof(*parameters) ||
      room.substr(0, code.size()) != code) {
    return false;
  }
  std::memcpy(parameters, room.data() + code.size(), sizeof(*parameters));
  return parameters->end_mark == kEndMark;
}

// Stored in collector_path, behind the library's short name.
constexpr char kDescriptorPath[] = "/proc/thread-self/fd/././././././";
constexpr char kLoadedName[] = ROCATTACH_COLLECTOR_MEMFD;
static_assert(sizeof(kDescriptorPath) - 1 == DESCRIPTOR_PATH_BYTES);
static_assert(sizeof(kLoadedName) == LOADED_NAME_BYTES);
static_assert(LOADED_NAME_BYTES <= DESCRIPTOR_PATH_BYTES + 2,
              "in the place of the path with one digit and its end");
static_assert(sizeof(ROCATTACH_COLLECTOR_NAME) <= DESCRIPTOR_PATH);
static_assert(SOCKET_KEY_BYTES == StubSocket::kBytes &&
              SOCKET_KEY + SOCKET_KEY_BYTES <
                  sizeof(rocattach_collector_config::collector_path));

void AddReceiver(const StubSocket& socket, rocattach_collector_config* config) {
  socklen_t bytes = 0;
  const sockaddr_un address = socket.Address(&bytes);
  std::memcpy(config->collector_path + SOCKET_NAME, &address, SOCKET_NAME_BYTES);
  std::memcpy(config->collector_path + SOCKET_KEY, socket.key.data(), SOCKET_KEY_BYTES);
  std::memcpy(config->collector_path + DESCRIPTOR_PATH, kDescriptorPath,
              sizeof(kDescriptorPath));
  std::memcpy(config->collector_path + LOADED_NAME, kLoadedName, sizeof(kLoadedName));
}

}  // namespace

size_t StubBytes(StubKind kind) {
  return kind == StubKind::kByPath
             ? Between(rocattach_stub_begin, rocattach_stub_end).size()
             : Between(rocattach_descriptor_stub_begin, rocattach_descriptor_stub_end)
                   .size();
}

absl::StatusOr<StubSocket> StubSocket::Random() {
  StubSocket socket;
  // 32 bytes at a time never fail, nor do they block once the machine has started.
  uint8_t bytes[2 * kBytes];
  if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != sizeof(bytes)) {
    return absl::UnavailableError("getrandom() has no random numbers yet");
  }
  // Names are listed in /proc/net/unix.
  for (size_t i = 0; i < kBytes; ++i)
    socket.name[i] = "0123456789abcdef"[bytes[i] % 16];
  std::memcpy(socket.key.data(), bytes + kBytes, kBytes);
  return socket;
}

sockaddr_un StubSocket::Address(socklen_t* bytes) const {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // Its first byte is 0: an abstract address.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *bytes = offsetof(sockaddr_un, sun_path) + 1 + kBytes;
  return address;
}

size_t StubSocketMade() {
  return Between(rocattach_descriptor_stub_begin, rocattach_descriptor_stub_socket_made)
      .size();
}

size_t StubSocketBound() {
  return Between(rocattach_descriptor_stub_begin,
                 rocattach_descriptor_stub_socket_bound)
      .size();
}

size_t StubErrorBytes() {
  return STUB_ERROR_BYTES;
}

absl::StatusOr<std::string> BuildStub(const StubSpec& spec) {
  const LoaderFunctions& functions = spec.functions;
  if (spec.return_ip.is_null() || functions.dlopen.is_null() ||
      functions.dlsym.is_null() || functions.dlerror.is_null() ||
      functions.errno_location.is_null() || spec.xstate_bytes == 0) {
    return absl::InvalidArgumentError("a stub with a null address or no xstate size");
  }
  const char* path = spec.config.collector_path;
  if (path[0] == '\0' || strnlen(path, sizeof(spec.config.collector_path)) ==
                             sizeof(spec.config.collector_path)) {
    return absl::InvalidArgumentError("a collector path that is empty or has no end");
  }
  StubParameters parameters = {};
  parameters.return_ip = spec.return_ip.value();
  parameters.errno_location = functions.errno_location.value();
  parameters.dlopen = functions.dlopen.value();
  parameters.dlsym = functions.dlsym.value();
  parameters.dlerror = functions.dlerror.value();
  parameters.signal_mask = kSignalMask;
  if (spec.locks.known()) {
    if (functions.mutex_trylock.is_null() || functions.mutex_unlock.is_null()) {
      return absl::InvalidArgumentError("loader locks without functions to take them");
    }
    parameters.load_lock = spec.locks.load.value();
    parameters.list_lock = spec.locks.list.value();
    parameters.mutex_trylock = functions.mutex_trylock.value();
    parameters.mutex_unlock = functions.mutex_unlock.value();
  }
  parameters.xstate_bytes = spec.xstate_bytes;
  parameters.restart_flags = RestartFlags(spec.ending_handlers);
  parameters.behind_call = parameters.return_ip + kCallBytes;
  std::memcpy(parameters.start_name, ROCATTACH_COLLECTOR_START,
              sizeof(ROCATTACH_COLLECTOR_START));
  parameters.config = spec.config;
  if (spec.kind == StubKind::kByDescriptor) {
    if (strlen(path) >= DESCRIPTOR_PATH) {
      return absl::InvalidArgumentError("a collector's name that is too long");
    }
    AddReceiver(spec.socket, &parameters.config);
  }
  parameters.end_mark = kEndMark;

  const absl::string_view code = CodeOf(spec.kind);
  if (code.size() + sizeof(parameters) != StubBytes(spec.kind)) {
    return absl::InternalError("stub_code.S and StubParameters disagree");
  }
  std::string stub(code);
  stub.append(reinterpret_cast<const char*>(&parameters), sizeof(parameters));
  return stub;
}

RemoteAddress ReturnAddressOf(absl::string_view room, StubKind kind) {
  StubParameters parameters;
  return ParametersOf(room, kind, &parameters) ? RemoteAddress(parameters.return_ip)
                                               : RemoteAddress();
}

FoundStub FindStub(absl::string_view room) {
  StubParameters parameters;
  for (StubKind kind : {StubKind::kByPath, StubKind::kByDescriptor}) {
    if (ParametersOf(room, kind, &parameters)) {
      return {StubBytes(kind), parameters.config.window_id};
    }
  }
  return {};
}

uint32_t XstateBytes() {
  // CPUID causes a VM exit each time, so it is executed only once.
  static const uint32_t bytes = [] {
    unsigned eax, ebx, ecx, edx;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) {
      return 0u;
    }
    if (__get_cpuid_count(0xd, 0, &eax, &ebx, &ecx, &edx) == 0) return 0u;
    return ebx;
  }();
  return bytes;
}

uint64_t StubFrameBytes() {
  return STUB_FRAME_BYTES;
}

}  // namespace rocattach
