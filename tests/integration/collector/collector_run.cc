#include "tests/integration/collector/collector_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/places.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

struct Child {
  pid_t pid = -1;
  UniqueFd out, err;
};

Child Spawn(const std::vector<std::string>& command,
            const CollectorRunOptions& options) {
  std::vector<std::string> environment = options.environment;
  // If a name has two entries, getenv returns the first and the loader uses the last.
  auto given = [&](absl::string_view entry) {
    const absl::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(
        options.environment.begin(), options.environment.end(),
        [&](const std::string& own) { return absl::StartsWith(own, name); });
  };
  const std::string preload = absl::StrCat(
      SimgpuPreload(), ":", testing_support::WithoutBlanks(COLLECTOR_PRELOAD_PATH));
  for (const char* entry : {"PATH=/usr/bin:/bin", preload.c_str(),
                            // No packet runs before its doorbell is rung, even if its
                            // producer is off the CPU for long before it rings. There
                            // is a limit, because threads that freeze executables write
                            // to one queue of the runtime and ring in any order: of two
                            // values the simulated GPU may see only the smaller one.
                            "SIMGPU_UNRUNG_NS=2000000000",
                            "COLLECTOR_TEST_LIBRARY=" COLLECTOR_LIBRARY_PATH}) {
    if (!given(entry)) environment.push_back(entry);
  }
  std::vector<char*> argv, envp;
  for (const std::string& word : command)
    argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : environment) {
    envp.push_back(const_cast<char*>(entry.c_str()));
  }
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) abort();
  Child child;
  child.pid = fork();
  if (child.pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  child.out.reset(out[0]);
  child.err.reset(err[0]);
  for (int fd : {out[0], err[0]}) fcntl(fd, F_SETFL, O_NONBLOCK);
  return child;
}

void ReadPipe(const UniqueFd& fd, std::string* text) {
  char buffer[4096];
  for (;;) {
    ssize_t n = read(fd.get(), buffer, sizeof(buffer));
    if (n <= 0) return;
    text->append(buffer, static_cast<size_t>(n));
  }
}

// Configuration that the target's test library has set, read from the control block.
rocattach_collector_config ConfigOf(pid_t pid, uint64_t address) {
  rocattach_collector_config config = {};
  rocattach_control control = {};
  auto memory = OpenFile(absl::StrCat("/proc/", pid, "/mem"), O_RDONLY);
  if (!memory.ok() || pread(memory->get(), &control, sizeof(control),
                            static_cast<off_t>(address)) != sizeof(control)) {
    return config;
  }
  config.size = sizeof(config);
  config.version = ROCATTACH_SHM_VERSION;
  config.ring_count = control.ring_count;
  config.ring_slots = control.ring_slots;
  config.inflight_count = control.inflight_count;
  config.dictionary_bytes = static_cast<uint32_t>(control.dictionary_bytes);
  config.collector_path[0] = '/';
  return config;
}

// Looks for the collector's memfd among the target's mappings.
std::unique_ptr<CollectorMemory> TryMap(pid_t pid) {
  auto maps = ReadFile(absl::StrCat("/proc/", pid, "/maps"), 16 << 20);
  if (!maps.ok()) return nullptr;
  for (absl::string_view line : absl::StrSplit(*maps, '\n')) {
    if (!absl::StrContains(line, "/memfd:" ROCATTACH_SHM_NAME)) continue;
    unsigned long begin = 0, end = 0;
    if (sscanf(std::string(line).c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    auto memory = CollectorMemory::Map(pid, begin, end - begin, ConfigOf(pid, begin));
    // On failure the memory is not filled in yet: the caller tries again later.
    if (memory.ok()) return *std::move(memory);
  }
  return nullptr;
}

template <typename T>
T As(const RecordSlot& slot) {
  static_assert(sizeof(T) == sizeof(slot.bytes));
  T record;
  memcpy(&record, slot.bytes, sizeof(record));
  return record;
}

void ReadEntries(CollectorMemory& memory, CollectorResult* result) {
  for (const std::vector<uint8_t>& bytes : memory.NewEntries()) {
    rocattach_entry head;
    memcpy(&head, bytes.data(), sizeof(head));
    auto text = [&](size_t fixed) {
      return std::string(reinterpret_cast<const char*>(bytes.data()) + fixed,
                         head.text_bytes);
    };
    if (head.kind == ROCATTACH_ENTRY_KERNEL) {
      RecordedKernel facts;
      memcpy(&facts.entry, bytes.data(), sizeof(facts.entry));
      facts.name = text(sizeof(facts.entry));
      result->kernels[head.id] = facts;
    } else if (head.kind == ROCATTACH_ENTRY_AGENT) {
      rocattach_agent_entry agent;
      memcpy(&agent, bytes.data(), sizeof(agent));
      result->agents.push_back(agent);
      result->agent_names.push_back(text(sizeof(agent)).c_str());
    } else if (head.kind == ROCATTACH_ENTRY_FUNCTION) {
      rocattach_function_entry function;
      memcpy(&function, bytes.data(), sizeof(function));
      if (function.domain >= ROCATTACH_PLAN_API_DOMAINS) continue;
      result->functions[function.domain][text(sizeof(function))] = function.function;
    } else if (head.kind == ROCATTACH_ENTRY_QUEUE) {
      rocattach_queue_entry queue;
      memcpy(&queue, bytes.data(), sizeof(queue));
      result->queues.push_back(queue);
    } else if (head.kind == ROCATTACH_ENTRY_CODE_OBJECT) {
      result->code_objects.push_back(text(sizeof(rocattach_code_object_entry)));
    }
  }
}

// The last record of a ring that values may follow.
struct Owner {
  uint64_t id = 0;
  uint32_t kind = 0;
  uint16_t next_slot = 0;
};

void AddValueSlot(const rocattach_values& values, Owner* owner,
                  CollectorResult* result) {
  if (values.of != owner->kind || values.correlation_id != owner->id ||
      values.slot != owner->next_slot) {
    ++result->stray_values;
    return;
  }
  ++owner->next_slot;
  auto& all =
      values.of == ROCATTACH_RECORD_SAMPLE ? result->sample_values : result->values;
  all[values.correlation_id].push_back(values);
}

void Drain(CollectorMemory& memory, CollectorResult* result) {
  memory.Snapshot();
  ReadEntries(memory, result);
  std::vector<RecordSlot> slots(4096);
  for (uint32_t i = 0; i < memory.ring_count(); ++i) {
    // The records of a group are published together, so no group spans two snapshots.
    Owner owner;
    while (size_t n = memory.Drain(i, absl::MakeSpan(slots))) {
      for (size_t k = 0; k < n; ++k) {
        switch (slots[k].kind()) {
          case ROCATTACH_RECORD_DISPATCH:
            result->dispatches.push_back(As<rocattach_dispatch>(slots[k]));
            owner = {result->dispatches.back().correlation_id,
                     ROCATTACH_RECORD_DISPATCH, 0};
            break;
          case ROCATTACH_RECORD_SAMPLE:
            result->samples.push_back(As<rocattach_sample>(slots[k]));
            owner = {result->samples.back().sample_id, ROCATTACH_RECORD_SAMPLE, 0};
            break;
          case ROCATTACH_RECORD_VALUES:
            AddValueSlot(As<rocattach_values>(slots[k]), &owner, result);
            break;
          case ROCATTACH_RECORD_INSTANCES: {
            const auto instances = As<rocattach_instances>(slots[k]);
            result->instances[instances.correlation_id].push_back(instances);
            break;
          }
          case ROCATTACH_RECORD_TEXT: {
            const auto text = As<rocattach_text>(slots[k]);
            if (!result->api_calls.empty()) {
              result->texts[result->api_calls.back().correlation_id].append(text.text,
                                                                            text.bytes);
            }
            break;
          }
          case ROCATTACH_RECORD_MEMORY:
            result->memory.push_back(As<rocattach_memory>(slots[k]));
            break;
          case ROCATTACH_RECORD_API:
            result->api_calls.push_back(As<rocattach_api_call>(slots[k]));
            break;
          case ROCATTACH_RECORD_COPY:
            result->copies.push_back(As<rocattach_copy>(slots[k]));
            break;
          case ROCATTACH_RECORD_CLOCK:
            result->clocks.push_back(As<rocattach_clock>(slots[k]));
            break;
        }
      }
    }
  }
  memory.Heartbeat(BootNs());
}

}  // namespace

std::string SimgpuPreload() {
  return "LD_PRELOAD=" + testing_support::WithoutBlanks(SIMGPU_LIBRARY_PATH);
}

int64_t CollectorResult::Printed(const std::string& key) const {
  size_t at = output.rfind(key + "=");
  int64_t value = -1;
  if (at == std::string::npos) return -1;
  absl::string_view rest = absl::string_view(output).substr(at + key.size() + 1);
  size_t end = rest.find_first_not_of("0123456789");
  return absl::SimpleAtoi(rest.substr(0, end), &value) ? value : -1;
}

size_t CollectorResult::WithFlags(uint16_t flags) const {
  size_t count = 0;
  for (const auto& d : dispatches) count += (d.flags & flags) != 0;
  return count;
}

size_t CollectorResult::Named(const std::string& part) const {
  size_t count = 0;
  for (const auto& d : dispatches) {
    auto it = kernels.find(d.kernel_id);
    count += it != kernels.end() && absl::StrContains(it->second.name, part);
  }
  return count;
}

CollectorResult RunWithCollector(const std::vector<std::string>& command,
                                 const CollectorRunOptions& options) {
  CollectorResult result;
  Child child = Spawn(command, options);
  result.pid = child.pid;
  bool prepared = false;
  std::unique_ptr<CollectorMemory> memory;
  uint64_t deadline = BootNs() + static_cast<uint64_t>(options.timeout_seconds * 1e9);
  for (bool ended = false; !ended;) {
    int status = 0;
    ended = waitpid(child.pid, &status, WNOHANG) == child.pid;
    if (ended) result.exit_status = status;
    if (!ended && BootNs() > deadline) kill(child.pid, SIGKILL);
    if (!ended && options.map && memory == nullptr) {
      memory = TryMap(child.pid);
      if (memory != nullptr) {
        result.mapped = true;
        if (options.prepare == nullptr) memory->control().AcknowledgeMapped();
      }
    }
    if (memory != nullptr) {
      if (options.drain) Drain(*memory, &result);
      if (!ended && options.prepare != nullptr && options.prepare(*memory, result) &&
          !prepared) {
        prepared = true;
        memory->control().AcknowledgeMapped();
      }
      if (!ended && options.during) options.during(*memory);
    }
    ReadPipe(child.out, &result.output);
    ReadPipe(child.err, &result.errors);
    if (!ended) usleep(1000);
  }
  if (memory != nullptr) {
    Drain(*memory, &result);
    result.unfinished = memory->UnfinishedRecords(0, memory->inflight_count());
    result.account = memory->Account();
    result.state = memory->control().state();
    result.collector = memory->control().Describe();
    result.text = memory->control().text();
  }
  return result;
}

bool CanMapTargets(std::string* why) {
  if (geteuid() == 0) return true;
  *why = "mapping a target's memory through map_files needs root";
  return false;
}

}  // namespace rocattach
