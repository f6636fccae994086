// libother-tool.so: a profiler that is already in a process, as ROCm builds of PyTorch
// have one: a library with a visible rocprofiler_configure that traces dispatches and
// copies through the SDK, and switches tracing on and off while the program works.
// Tests that profile the same process compare what this tool recorded with and without
// the other profiler.
//
// OTHER_TOOL has words separated by blanks:
//   idle             a client that traces nothing, and only receives code objects
//   dispatch, copy   what to trace; both if neither is given
//   calls            HSA calls too
//   stopped          tracing is configured, but starts only with the first switch
//   switches=N       once the program dispatches, starts and stops tracing N times
//                    alternately on a thread of its own, and leaves it on
//   on-usec=N off-usec=N
//                    how long it stays on and off; 0: not at all (default 200)
// OTHER_TOOL_OUTPUT names the file that it writes at the end, a line for each:
//   queue id=N kernel=NAME dispatches=N timed=N ns=SUM   in order of queues and names
//   copy direction=NAME copies=N bytes=SUM timed=N ns=SUM
//   record id=N queue=N kernel=NAME start=NS end=NS      with the word "records"
//   call name=NAME calls=N                               with the word "calls"
//   total dispatches=N copies=N dropped=N repeated=N unordered=N switches=N
// timed: with 0 < start < end. repeated: dispatch ids seen twice. unordered: dispatches
// that began clearly before an earlier one of their queue had ended.
// OTHER_TOOL_DONE names a file that it creates once it has done its switches.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "userspace/collector/sdk/abi.h"

namespace {

struct DispatchRecord {
  uint64_t id, queue, kernel, start, end;
};

struct CopySums {
  uint64_t copies = 0, bytes = 0, timed = 0, ns = 0;
};

struct Tool {
  rocattach_sdk_functions sdk{};
  std::map<std::string, std::string> words;
  rocattach_sdk_context_id names{0}, tracing{0};
  rocattach_sdk_buffer_id buffer{0};
  std::thread switcher;
  std::atomic<bool> ended{false};
  std::atomic<uint64_t> switches{0};

  std::mutex mutex;
  std::map<uint64_t, std::string> kernels;
  std::vector<DispatchRecord> dispatches;
  std::map<std::string, CopySums> copies;
  std::map<std::string, uint64_t> calls;
  uint64_t dropped = 0;
};

Tool& Get() {
  static auto* tool = new Tool;
  return *tool;
}

bool Has(const char* word) {
  return Get().words.count(word) != 0;
}

uint64_t Number(const char* word, uint64_t fallback) {
  auto found = Get().words.find(word);
  return found != Get().words.end() ? std::stoull(found->second) : fallback;
}

void ReadWords() {
  const char* text = getenv("OTHER_TOOL");
  std::istringstream words(text != nullptr ? text : "");
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    Get().words[word.substr(0, equals)] =
        equals != std::string::npos ? word.substr(equals + 1) : "";
  }
  if (!Has("dispatch") && !Has("copy")) {
    Get().words["dispatch"] = "";
    Get().words["copy"] = "";
  }
}

// Aborts if an SDK call failed: the output of this tool could not be trusted.
void Check(const char* what, int status) {
  if (status == ROCATTACH_SDK_STATUS_SUCCESS) return;
  fprintf(stderr, "other tool: %s: status %d\n", what, status);
  abort();
}

bool LoadSdk() {
  void* library = dlopen("librocprofiler-sdk.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  rocattach_sdk_functions& functions = Get().sdk;
#define OTHER_TOOL_RESOLVE(field, symbol, type) \
  functions.field = reinterpret_cast<type>(dlsym(library, symbol));
  ROCATTACH_SDK_FOR_EACH_FUNCTION(OTHER_TOOL_RESOLVE)
#undef OTHER_TOOL_RESOLVE
  return functions.create_context != nullptr && functions.start_context != nullptr;
}

const char* Operation(int32_t kind, int32_t operation) {
  const char* name = nullptr;
  Get().sdk.buffer_operation_name(kind, operation, &name, nullptr);
  return name != nullptr ? name : "?";
}

void OnBuffer(rocattach_sdk_context_id, rocattach_sdk_buffer_id,
              rocattach_sdk_record_header** headers, size_t count, void*,
              uint64_t dropped) {
  Tool& tool = Get();
  std::lock_guard lock(tool.mutex);
  tool.dropped = dropped;
  for (size_t i = 0; i < count; ++i) {
    const void* payload = headers[i]->payload;
    if (headers[i]->kind == ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH) {
      const auto& record =
          *static_cast<const rocattach_sdk_kernel_dispatch_record*>(payload);
      tool.dispatches.push_back({record.dispatch_info.dispatch_id,
                                 record.dispatch_info.queue_id.handle,
                                 record.dispatch_info.kernel_id, record.start_timestamp,
                                 record.end_timestamp});
    } else if (headers[i]->kind == ROCATTACH_SDK_BUFFER_MEMORY_COPY) {
      const auto& record =
          *static_cast<const rocattach_sdk_memory_copy_record*>(payload);
      CopySums& sums = tool.copies[Operation(record.kind, record.operation)];
      ++sums.copies;
      sums.bytes += record.bytes;
      if (record.start_timestamp == 0 || record.start_timestamp >= record.end_timestamp)
        continue;
      ++sums.timed;
      sums.ns += record.end_timestamp - record.start_timestamp;
    } else {
      const auto& record = *static_cast<const rocattach_sdk_api_record*>(payload);
      ++tool.calls[Operation(record.kind, record.operation)];
    }
  }
}

void OnCodeObject(rocattach_sdk_callback_record record, rocattach_sdk_user_data*,
                  void*) {
  if (record.operation != ROCATTACH_SDK_CODE_OBJECT_KERNEL_SYMBOL ||
      record.phase != ROCATTACH_SDK_PHASE_LOAD) {
    return;
  }
  const auto* kernel = static_cast<const rocattach_sdk_kernel_symbol*>(record.payload);
  std::lock_guard lock(Get().mutex);
  Get().kernels[kernel->kernel_id] = kernel->kernel_name;
}

void Sleep(uint64_t usec) {
  if (usec != 0) usleep(static_cast<useconds_t>(usec));
}

void Switch(bool on) {
  Tool& tool = Get();
  const int status =
      on ? tool.sdk.start_context(tool.tracing) : tool.sdk.stop_context(tool.tracing);
  // The program has ended meanwhile.
  if (status == ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED) return;
  Check("switch", status);
}

// Kernels that are known mean that the program is about to dispatch.
bool ProgramIsReady() {
  std::lock_guard lock(Get().mutex);
  return !Get().kernels.empty();
}

void SwitchRepeatedly() {
  Tool& tool = Get();
  while (!ProgramIsReady() && !tool.ended) Sleep(1000);
  const uint64_t count = Number("switches", 0);
  bool on = !Has("stopped");
  for (uint64_t i = 0; i < count && !tool.ended; ++i) {
    on = !on;
    Switch(on);
    ++tool.switches;
    Sleep(Number(on ? "on-usec" : "off-usec", 200));
  }
  if (!on && !tool.ended) Switch(true);
  const char* done = getenv("OTHER_TOOL_DONE");
  if (done != nullptr) close(open(done, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
}

void ConfigureTracing() {
  Tool& tool = Get();
  const std::pair<const char*, int32_t> kinds[] = {
      {"dispatch", ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH},
      {"copy", ROCATTACH_SDK_BUFFER_MEMORY_COPY},
      {"calls", ROCATTACH_SDK_BUFFER_HSA_CORE_API},
      {"calls", ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API}};
  for (const auto& [word, kind] : kinds) {
    if (!Has(word)) continue;
    Check(word, tool.sdk.configure_buffer_tracing(tool.tracing, kind, nullptr, 0,
                                                  tool.buffer));
  }
}

int Initialize(rocattach_sdk_client_finalize_fn, void*) {
  Tool& tool = Get();
  Check("names", tool.sdk.create_context(&tool.names));
  Check("code objects", tool.sdk.configure_callback_tracing(
                            tool.names, ROCATTACH_SDK_CALLBACK_CODE_OBJECT, nullptr, 0,
                            OnCodeObject, nullptr));
  Check("start", tool.sdk.start_context(tool.names));
  if (Has("idle")) return 0;
  Check("tracing", tool.sdk.create_context(&tool.tracing));
  constexpr size_t kBytes = 4 << 20;
  Check("buffer", tool.sdk.create_buffer(tool.tracing, kBytes, kBytes / 2,
                                         ROCATTACH_SDK_POLICY_LOSSLESS, OnBuffer,
                                         nullptr, &tool.buffer));
  ConfigureTracing();
  if (!Has("stopped")) Switch(true);
  if (Number("switches", 0) != 0) tool.switcher = std::thread(SwitchRepeatedly);
  return 0;
}

// The runtime recalibrates the GPU's clock to the system's now and then, so that the
// end of one dispatch and the start of the next, the same tick, may differ in ns.
constexpr uint64_t kClockNs = 2500;

struct KernelSums {
  uint64_t dispatches = 0, timed = 0, ns = 0;
};

void Write(FILE* file) {
  Tool& tool = Get();
  std::map<std::pair<uint64_t, std::string>, KernelSums> sums;
  std::map<uint64_t, DispatchRecord> by_id;
  uint64_t repeated = 0, unordered = 0, copies = 0;
  for (const DispatchRecord& d : tool.dispatches) {
    KernelSums& of = sums[{d.queue, tool.kernels[d.kernel]}];
    ++of.dispatches;
    if (d.start != 0 && d.start < d.end) {
      ++of.timed;
      of.ns += d.end - d.start;
    }
    if (!by_id.emplace(d.id, d).second) ++repeated;
  }
  std::map<uint64_t, uint64_t> end_of_queue;
  for (const auto& [id, d] : by_id) {
    if (d.start + kClockNs < end_of_queue[d.queue]) ++unordered;
    end_of_queue[d.queue] = d.end;
    if (!Has("records")) continue;
    fprintf(file, "record id=%lu queue=%lu kernel=%s start=%lu end=%lu\n", d.id,
            d.queue, tool.kernels[d.kernel].c_str(), d.start, d.end);
  }
  for (const auto& [key, of] : sums) {
    fprintf(file, "queue id=%lu kernel=%s dispatches=%lu timed=%lu ns=%lu\n", key.first,
            key.second.c_str(), of.dispatches, of.timed, of.ns);
  }
  for (const auto& [direction, of] : tool.copies) {
    fprintf(file, "copy direction=%s copies=%lu bytes=%lu timed=%lu ns=%lu\n",
            direction.c_str(), of.copies, of.bytes, of.timed, of.ns);
    copies += of.copies;
  }
  for (const auto& [name, calls] : tool.calls) {
    fprintf(file, "call name=%s calls=%lu\n", name.c_str(), calls);
  }
  fprintf(file,
          "total dispatches=%zu copies=%lu dropped=%lu repeated=%lu unordered=%lu "
          "switches=%lu\n",
          tool.dispatches.size(), copies, tool.dropped, repeated, unordered,
          tool.switches.load());
}

void Finalize(void*) {
  Tool& tool = Get();
  tool.ended = true;
  if (tool.switcher.joinable()) tool.switcher.join();
  if (!Has("idle")) tool.sdk.flush_buffer(tool.buffer);
  const char* path = getenv("OTHER_TOOL_OUTPUT");
  FILE* file = path != nullptr ? fopen(path, "we") : nullptr;
  if (file == nullptr) return;
  std::lock_guard lock(tool.mutex);
  Write(file);
  fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) rocattach_sdk_configure_result*
rocprofiler_configure(uint32_t, const char*, uint32_t,
                      rocattach_sdk_client_id* client) {
  client->name = "other";
  ReadWords();
  if (!LoadSdk()) return nullptr;
  static rocattach_sdk_configure_result result = {sizeof(result), Initialize, Finalize,
                                                  nullptr};
  return &result;
}
