#include "injector/process/allocator_frames.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/elf/library_facts.h"
#include "injector/elf/mapped_file.h"
#include "injector/elf/symbol_lookup.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kMaxFrames = 512;
// Longest part of a stack that is searched where it cannot be unwound.
constexpr uint64_t kMaxRest = 64 * 1024;
// A thread starts with two frames of the C library, the program with three.
constexpr size_t kMaxStartFrames = 3;

constexpr absl::string_view kAllocatorFunctions[] = {"malloc",
                                                     "calloc",
                                                     "realloc",
                                                     "free",
                                                     "memalign",
                                                     "posix_memalign",
                                                     "aligned_alloc",
                                                     "valloc",
                                                     "pvalloc",
                                                     "cfree",
                                                     "_Znwm",
                                                     "_Znam",
                                                     "_ZnwmRKSt9nothrow_t",
                                                     "_ZnamRKSt9nothrow_t",
                                                     "_ZnwmSt11align_val_t",
                                                     "_ZnamSt11align_val_t",
                                                     "_ZdlPv",
                                                     "_ZdaPv",
                                                     "_ZdlPvm",
                                                     "_ZdaPvm"};

bool IsProgram(pid_t pid, const Mapping& mapping) {
  struct stat info;
  return stat(absl::StrCat("/proc/", pid, "/exe").c_str(), &info) == 0 &&
         info.st_ino == mapping.inode && major(info.st_dev) == mapping.device_major &&
         minor(info.st_dev) == mapping.device_minor;
}

UnwindRegisters FirstFrame(const user_regs_struct& registers) {
  // In DWARF order.
  return {registers.rax, registers.rdx, registers.rcx, registers.rbx, registers.rsi,
          registers.rdi, registers.rbp, registers.rsp, registers.r8,  registers.r9,
          registers.r10, registers.r11, registers.r12, registers.r13, registers.r14,
          registers.r15, registers.rip};
}

}  // namespace

void AllocatorFrames::SetMalloc(RemoteAddress malloc) {
  const Mapping* mapping = maps_.Find(malloc);
  if (mapping == nullptr || !mapping->is_file()) return;
  file_ = mapping;
  is_program_ = IsProgram(pid_, *mapping);
  auto module = ModuleOf(*mapping);
  if (!module.ok()) return;
  for (absl::string_view name : kAllocatorFunctions) {
    auto function = (*module)->image->FindFunction(name);
    if (!function.ok()) continue;
    const uint64_t begin = function->vaddr + (*module)->bias;
    functions_.push_back({begin, begin + function->size});
  }
}

bool AllocatorFrames::Inside(uint64_t address) const {
  const Mapping* mapping = maps_.Find(RemoteAddress(address));
  if (mapping == nullptr || !mapping->executable || !IsPart(*mapping)) return false;
  return !is_program_ || IsFunction(address);
}

bool AllocatorFrames::IsFunction(uint64_t address) const {
  return std::any_of(functions_.begin(), functions_.end(), [address](Range range) {
    return address >= range.begin && address < range.end;
  });
}

std::optional<uint64_t> AllocatorFrames::ReadWord(uint64_t address) const {
  uint64_t word;
  if (!memory_.Read(RemoteAddress(address), &word, sizeof(word)).ok()) {
    return std::nullopt;
  }
  return word;
}

uint64_t AllocatorFrames::Called(uint64_t return_address) const {
  unsigned char code[16];
  auto relative = [&code](size_t at) {
    int32_t distance;
    std::memcpy(&distance, code + at, sizeof(distance));
    return static_cast<uint64_t>(int64_t{distance});
  };
  constexpr size_t kCall = 6;  // longest call without a register
  if (!memory_.Read(RemoteAddress(return_address - kCall), code, kCall).ok()) return 0;
  uint64_t function = 0;
  if (code[1] == 0xe8) {  // call FUNCTION
    function = return_address + relative(2);
  } else if (code[0] == 0xff && code[1] == 0x15) {  // call *SLOT(%rip)
    return ReadWord(return_address + relative(2)).value_or(0);
  } else {
    return 0;
  }
  // An entry of the procedure linkage table: [endbr64] [bnd] jmp *SLOT(%rip).
  if (!memory_.Read(RemoteAddress(function), code, sizeof(code)).ok()) return 0;
  constexpr unsigned char kEndbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
  size_t at = std::memcmp(code, kEndbr, sizeof(kEndbr)) == 0 ? sizeof(kEndbr) : 0;
  if (code[at] == 0xf2) ++at;
  if (code[at] != 0xff || code[at + 1] != 0x25) return function;
  return ReadWord(function + at + 6 + relative(at + 2)).value_or(0);
}

std::optional<std::string> AllocatorFrames::Describe(uint64_t address) const {
  return absl::StrFormat("%s at %#x", std::string(file_->path), address);
}

std::optional<std::string> AllocatorFrames::FindAddress(
    absl::Span<const uint64_t> words) const {
  if (file_ == nullptr) return std::nullopt;
  for (uint64_t word : words) {
    const Mapping* mapping = word != 0 ? maps_.Find(RemoteAddress(word - 1)) : nullptr;
    if (mapping == nullptr || !mapping->executable) continue;
    if (Inside(word - 1) || IsFunction(Called(word))) return Describe(word);
  }
  return std::nullopt;
}

bool AllocatorFrames::IsCall(absl::Span<const uint64_t> callers) const {
  if (IsFunction(Called(callers[0]))) return true;
  if (!Inside(callers[0] - 1)) return false;
  if (is_program_) return true;
  // Skips the allocator's own functions, to find the code that called it.
  size_t outer = 1;
  while (outer < callers.size() && Inside(callers[outer] - 1)) ++outer;
  if (outer == callers.size()) return false;
  const Mapping* mapping = maps_.Find(RemoteAddress(callers[outer]));
  return mapping == nullptr || !IsGlibcLibrary(mapping->basename()) ||
         callers.size() - outer > kMaxStartFrames;
}

absl::StatusOr<const AllocatorFrames::Module*> AllocatorFrames::ModuleOf(
    const Mapping& mapping) {
  std::unique_ptr<Module>& module = modules_[mapping.start.value()];
  if (module == nullptr) {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenMappedFile(pid_, mapping));
    auto opened = std::make_unique<Module>(std::move(fd));
    ASSIGN_OR_RETURN(opened->image,
                     ElfImage::Parse(opened->source, ElfImage::Form::kFile));
    LibraryFacts facts;
    facts.segments = opened->image->segments();
    ASSIGN_OR_RETURN(opened->bias, LoadBias(facts, mapping));
    module = std::move(opened);
  }
  return module.get();
}

absl::StatusOr<UnwindRegisters> AllocatorFrames::Caller(const UnwindRegisters& frame,
                                                        bool first) {
  auto read = [this](uint64_t address) { return ReadWord(address); };
  // A return address may lie past the end of its function.
  const uint64_t ip = *frame[kUnwindReturn] - (first ? 0 : 1);
  const Mapping* mapping = maps_.Find(RemoteAddress(ip));
  if (mapping == nullptr || !mapping->is_file() || !mapping->executable) {
    return absl::NotFoundError(absl::StrFormat("no file's code is at %#x", ip));
  }
  auto module = ModuleOf(*mapping);
  absl::Status why = module.status();
  if (module.ok()) {
    auto caller = UnwindFrame(*(*module)->image, ip - (*module)->bias, frame, read);
    if (caller.ok() || !first) return caller;
    why = caller.status();
  }
  if (!first) return why;
  // hsa_init without unwind information: at its entry the return address is the first
  // word, or the second one after `push %rbp`.
  for (uint64_t skipped : {0, 8}) {
    const uint64_t at = *frame[kUnwindRsp] + skipped;
    std::optional<uint64_t> word = read(at);
    const Mapping* target = word ? maps_.Find(RemoteAddress(*word)) : nullptr;
    if (target == nullptr || !target->executable) continue;
    UnwindRegisters caller = frame;
    caller[kUnwindReturn] = word;
    caller[kUnwindRsp] = at + sizeof(uint64_t);
    if (skipped != 0) caller[6] = read(at - sizeof(uint64_t));
    return caller;
  }
  return why;
}

std::optional<std::string> AllocatorFrames::FindCall(
    const user_regs_struct& registers) {
  if (file_ == nullptr) return std::nullopt;
  std::vector<uint64_t> callers;
  std::string why;
  UnwindRegisters frame = FirstFrame(registers);
  while (callers.size() < kMaxFrames) {
    auto caller = Caller(frame, callers.empty());
    if (!caller.ok()) {
      why = std::string(caller.status().message());
      break;
    }
    if ((*caller)[kUnwindReturn].value_or(0) == 0) break;
    if (*(*caller)[kUnwindRsp] <= *frame[kUnwindRsp]) {
      why = "frames that do not lead upwards";
      break;
    }
    frame = *std::move(caller);
    callers.push_back(*frame[kUnwindReturn]);
  }
  for (size_t i = 0; i < callers.size(); ++i) {
    if (IsCall(absl::MakeConstSpan(callers).subspan(i))) return Describe(callers[i]);
  }
  if (why.empty() && callers.size() < kMaxFrames) return std::nullopt;

  const uint64_t begin = *frame[kUnwindRsp] & ~uint64_t{7};
  const Mapping* stack = maps_.Find(RemoteAddress(begin));
  if (stack == nullptr) return std::nullopt;
  std::vector<uint64_t> rest(std::min(stack->end.value() - begin, kMaxRest) /
                             sizeof(uint64_t));
  // The mapping may end with an unreadable guard, and another thread's stack.
  const auto bytes = memory_.ReadFront(RemoteAddress(begin), rest.data(),
                                       rest.size() * sizeof(uint64_t));
  if (!bytes.ok()) return std::nullopt;
  rest.resize(*bytes / sizeof(uint64_t));
  auto found = FindAddress(rest);
  if (found.has_value()) {
    absl::StrAppend(&*found, " is on the stack, which cannot be unwound (", why, ")");
  }
  return found;
}

}  // namespace rocattach
