// A tool that attaches to a running process, as ROCm's documents describe one: it loads
// the library at run time, finds the functions by name, attaches, waits, detaches.
//
//   attach_tool LIBRARY PID [MSEC]
//
// LIBRARY exports attach() and detach(). Without MSEC it profiles until the process
// ends. It sets in its own environment what is recorded and where, as the documents do,
// unless the variables are set already.
#include <dlfcn.h>
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

class Tool {
 public:
  bool Load(const char* library) {
    library_.reset(dlopen(library, RTLD_NOW));
    if (library_ == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return false;
    }
    *reinterpret_cast<void**>(&attach_) = dlsym(library_.get(), "attach");
    *reinterpret_cast<void**>(&detach_) = dlsym(library_.get(), "detach");
    return attach_ != nullptr && detach_ != nullptr;
  }

  bool Profile(pid_t pid, uint32_t msec) const {
    if (kill(pid, 0) != 0) return false;
    attach_(static_cast<uint32_t>(pid));
    std::printf("attached\n");
    std::fflush(stdout);
    if (msec > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(msec));
    } else {
      while (kill(pid, 0) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
    detach_();
    std::printf("detached\n");
    return true;
  }

 private:
  std::unique_ptr<void, CloseLibrary> library_;
  void (*attach_)(uint32_t) = nullptr;
  void (*detach_)() = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (const char* flag : {"ROCPROF_HIP_RUNTIME_API_TRACE", "ROCPROF_KERNEL_TRACE",
                           "ROCPROF_MEMORY_COPY_TRACE"}) {
    setenv(flag, "1", 0);
  }
  setenv("ROCPROF_OUTPUT_PATH", "./attachment-output", 0);
  setenv("ROCPROF_OUTPUT_FILE_NAME", "attached_profile", 0);
  Tool tool;
  if (!tool.Load(argv[1])) return 1;
  const auto msec =
      static_cast<uint32_t>(argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0);
  return tool.Profile(static_cast<pid_t>(std::strtol(argv[2], nullptr, 10)), msec) ? 0
                                                                                   : 1;
}
