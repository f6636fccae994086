#include "userspace/collector/hsa/executables.h"

#include <string.h>
#include <sys/mman.h>

#include "userspace/collector/common/own_memory.h"
#include "userspace/collector/hsa/kernel_descriptor.h"

namespace rocattach::collector {
namespace {

// Names and URIs up to this size are read on the stack, longer ones in mapped memory.
constexpr uint32_t kShortText = 512;

// Scratch memory for one text.
class TextBuffer {
 public:
  explicit TextBuffer(uint32_t bytes) {
    if (bytes <= kShortText) return;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
    mapped_ = data_ == nullptr ? 0 : bytes;
  }
  ~TextBuffer() {
    if (mapped_ != 0) munmap(data_, mapped_);
  }
  TextBuffer(const TextBuffer&) = delete;
  TextBuffer& operator=(const TextBuffer&) = delete;
  char* data() { return data_; }

 private:
  char short_[kShortText];
  char* data_ = short_;
  uint32_t mapped_ = 0;
};

}  // namespace

struct Executables::Reading {
  static constexpr uint32_t kMaxLoaded = 64;
  Executables* self;
  const Agent* agent;
  bool destroying;
  uint32_t loaded_count;
  Loaded loaded[kMaxLoaded];
  // Keeps kernels until later; null: they are added at once.
  Backlog* backlog;
};

// Kernels that have been read while the loader was locked, in mapped memory.
class Executables::Backlog {
 public:
  Backlog() = default;
  ~Backlog() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  // False: out of memory.
  bool Push(const Kernel& kernel, const char* name) {
    const size_t bytes = Rounded(kernel);
    if (!Reserve(bytes)) return false;
    memcpy(data_ + used_, &kernel, sizeof(kernel));
    if (kernel.name_bytes != 0) {
      memcpy(data_ + used_ + sizeof(kernel), name, kernel.name_bytes);
    }
    used_ += bytes;
    return true;
  }

  template <typename Visit>
  void ForEach(Visit visit) {
    for (size_t at = 0; at < used_;) {
      auto* kernel = reinterpret_cast<Kernel*>(data_ + at);
      visit(kernel, data_ + at + sizeof(*kernel));
      at += Rounded(*kernel);
    }
  }

 private:
  static constexpr size_t kFirstBytes = size_t{256} << 10;

  static size_t Rounded(const Kernel& kernel) {
    return (sizeof(kernel) + kernel.name_bytes + 7) & ~size_t{7};
  }
  bool Reserve(size_t bytes) {
    size_t size = size_ == 0 ? kFirstBytes : size_;
    while (size - used_ < bytes) size *= 2;
    if (size == size_) return true;
    void* memory = size_ == 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                              : mremap(data_, size_, size, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) return false;
    data_ = static_cast<char*>(memory);
    size_ = size;
    return true;
  }

  char* data_ = nullptr;
  size_t size_ = 0;
  size_t used_ = 0;
};

void Executables::Init(const HsaFunctions* hsa, const Agents* agents,
                       Dictionary* dictionary, KernelTable* kernels) {
  hsa_ = hsa;
  agents_ = agents;
  dictionary_ = dictionary;
  kernels_ = kernels;
  memset(&loader_, 0, sizeof(loader_));
  if (hsa->system_get_major_extension_table(HSA_EXTENSION_AMD_LOADER, 1,
                                            sizeof(loader_),
                                            &loader_) != HSA_STATUS_SUCCESS) {
    memset(&loader_, 0, sizeof(loader_));
  }
}

void Executables::Frozen(hsa_executable_t executable) {
  Reading reading;
  reading.self = this;
  reading.destroying = false;
  reading.backlog = nullptr;
  Read(executable, &reading);
}

// 1. The runtime calls VisitExecutable with its loader's lock held, so that the
//    executables exist meanwhile. The loader must not be called again from there.
// 2. After that, the host addresses of the kernels are requested from the loader.
void Executables::LoadedBefore() {
  keep_agents_ = true;
  const auto iterate = loader_.hsa_ven_amd_loader_iterate_executables;
  if (iterate == nullptr) return;
  Backlog backlog;
  Reading reading;
  reading.self = this;
  reading.destroying = false;
  reading.backlog = &backlog;
  iterate(&Executables::VisitExecutable, &reading);
  backlog.ForEach([this](Kernel* kernel, const char* name) {
    ReadRegisters(kernel, /*may_be_gone=*/true);
    Publish(kernel, name);
  });
}

hsa_status_t Executables::VisitExecutable(hsa_executable_t executable, void* data) {
  auto* reading = static_cast<Reading*>(data);
  reading->self->Read(executable, reading);
  return HSA_STATUS_SUCCESS;
}

const Agent* Executables::AgentOf(uint64_t kernel_object) const {
  const uint32_t id = agents_of_kernels_.Find(kernel_object);
  for (uint32_t i = 0; id != 0 && i < agents_->count(); ++i) {
    if (agents_->at(i).id == id) return &agents_->at(i);
  }
  return nullptr;
}

void Executables::Read(hsa_executable_t executable, Reading* reading) {
  reading->loaded_count = 0;
  if (loader_.hsa_ven_amd_loader_executable_iterate_loaded_code_objects != nullptr) {
    loader_.hsa_ven_amd_loader_executable_iterate_loaded_code_objects(
        executable, &Executables::VisitCodeObject, reading);
  }
  for (uint32_t i = 0; i < agents_->count(); ++i) {
    reading->agent = &agents_->at(i);
    if (!reading->agent->gpu) continue;
    hsa_->executable_iterate_agent_symbols(executable, reading->agent->handle,
                                           &Executables::VisitSymbol, reading);
  }
}

void Executables::Destroying(hsa_executable_t executable) {
  Reading reading;
  reading.self = this;
  reading.destroying = true;
  reading.backlog = nullptr;
  reading.loaded_count = 0;
  for (uint32_t i = 0; i < agents_->count(); ++i) {
    reading.agent = &agents_->at(i);
    if (!reading.agent->gpu) continue;
    hsa_->executable_iterate_agent_symbols(executable, reading.agent->handle,
                                           &Executables::VisitSymbol, &reading);
  }
}

hsa_status_t Executables::VisitCodeObject(hsa_executable_t,
                                          hsa_loaded_code_object_t object, void* data) {
  auto* reading = static_cast<Reading*>(data);
  reading->self->AddCodeObject(reading, object);
  return HSA_STATUS_SUCCESS;
}

void Executables::AddCodeObject(Reading* reading, hsa_loaded_code_object_t object) {
  if (reading->loaded_count == Reading::kMaxLoaded) return;
  auto query = loader_.hsa_ven_amd_loader_loaded_code_object_get_info;
  rocattach_code_object_entry entry = {};
  hsa_agent_t agent = {};
  uint32_t uri_bytes = 0;
  query(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_AGENT, &agent);
  query(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE, &entry.load_base);
  query(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE,
        &entry.load_bytes);
  query(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_DELTA,
        &entry.load_delta);
  query(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI_LENGTH, &uri_bytes);
  const Agent* known = agents_->Find(agent);
  entry.agent_id = known == nullptr ? 0 : known->id;
  // One more byte: some runtimes write the terminating NUL too.
  TextBuffer uri(uri_bytes < Dictionary::kMaxText ? uri_bytes + 1 : 0);
  bool have_uri =
      uri_bytes != 0 && uri_bytes < Dictionary::kMaxText && uri.data() != nullptr &&
      query(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI, uri.data()) ==
          HSA_STATUS_SUCCESS;
  uint32_t id = dictionary_->Append(ROCATTACH_ENTRY_CODE_OBJECT, &entry, uri.data(),
                                    have_uri ? uri_bytes : 0);
  reading->loaded[reading->loaded_count++] = {entry.load_base, entry.load_bytes, id};
}

hsa_status_t Executables::VisitSymbol(hsa_executable_t, hsa_agent_t,
                                      hsa_executable_symbol_t symbol, void* data) {
  auto* reading = static_cast<Reading*>(data);
  Executables* self = reading->self;
  auto query = self->hsa_->executable_symbol_get_info;
  hsa_symbol_kind_t kind = HSA_SYMBOL_KIND_VARIABLE;
  uint64_t kernel_object = 0;
  if (query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &kind) != HSA_STATUS_SUCCESS ||
      kind != HSA_SYMBOL_KIND_KERNEL ||
      query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &kernel_object) !=
          HSA_STATUS_SUCCESS ||
      kernel_object == 0) {
    return HSA_STATUS_SUCCESS;
  }
  if (reading->destroying) {
    self->kernels_->Erase(kernel_object);
    if (self->keep_agents_) self->agents_of_kernels_.Erase(kernel_object);
  } else {
    self->AddKernel(*reading, *reading->agent, symbol, kernel_object);
  }
  return HSA_STATUS_SUCCESS;
}

void Executables::AddKernel(const Reading& reading, const Agent& agent,
                            hsa_executable_symbol_t symbol, uint64_t kernel_object) {
  auto query = hsa_->executable_symbol_get_info;
  Kernel kernel = {};
  kernel.gfx = agent.gfx;
  rocattach_kernel_entry& entry = kernel.entry;
  entry.agent_id = agent.id;
  entry.kernel_object = kernel_object;
  query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE,
        &entry.kernarg_bytes);
  query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT,
        &entry.kernarg_alignment);
  query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &entry.lds_bytes);
  query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
        &entry.scratch_bytes);
  for (uint32_t i = 0; i < reading.loaded_count; ++i) {
    const Loaded& loaded = reading.loaded[i];
    if (kernel_object - loaded.base < loaded.bytes) entry.code_object_id = loaded.id;
  }
  uint32_t name_bytes = 0;
  query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH, &name_bytes);
  // A name too long for the dictionary's 16-bit length is omitted rather than
  // truncated.
  const bool fits = name_bytes != 0 && name_bytes < Dictionary::kMaxText;
  TextBuffer name(fits ? name_bytes + 1 : 0);
  if (fits && name.data() != nullptr &&
      query(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME, name.data()) ==
          HSA_STATUS_SUCCESS) {
    kernel.name_bytes = name_bytes;
  }
  if (reading.backlog != nullptr && reading.backlog->Push(kernel, name.data())) return;
  if (reading.backlog == nullptr) ReadRegisters(&kernel, /*may_be_gone=*/false);
  Publish(&kernel, name.data());
}

void Executables::ReadRegisters(Kernel* kernel, bool may_be_gone) {
  // Kernel objects may lie in device memory that the host cannot read.
  const void* host = nullptr;
  if (loader_.hsa_ven_amd_loader_query_host_address == nullptr ||
      loader_.hsa_ven_amd_loader_query_host_address(
          reinterpret_cast<const void*>(kernel->entry.kernel_object), &host) !=
          HSA_STATUS_SUCCESS ||
      host == nullptr) {
    return;
  }
  KernelDescriptor descriptor;
  if (may_be_gone) {
    // A thread that was about to enter hsa_executable_destroy when the entry was
    // replaced may free what we read here.
    if (!CopyOwnMemory(host, &descriptor, sizeof(descriptor))) return;
  } else {
    memcpy(&descriptor, host, sizeof(descriptor));
  }
  const KernelRegisters registers = RegistersOf(descriptor, kernel->gfx);
  kernel->entry.sgprs = registers.sgprs;
  kernel->entry.arch_vgprs = registers.arch_vgprs;
  kernel->entry.accum_vgprs = registers.accum_vgprs;
}

void Executables::Publish(Kernel* kernel, const char* name) {
  uint32_t name_bytes = kernel->name_bytes;
  // Since code object version 3 the symbol is the descriptor's: name + ".kd".
  if (name_bytes > 3 && memcmp(name + name_bytes - 3, ".kd", 3) == 0) name_bytes -= 3;
  rocattach_kernel_entry* entry = &kernel->entry;
  const uint32_t id =
      dictionary_->Append(ROCATTACH_ENTRY_KERNEL, entry, name, name_bytes);
  if (id == 0) return;
  kernels_->Insert(entry->kernel_object, id);
  if (keep_agents_) agents_of_kernels_.Insert(entry->kernel_object, entry->agent_id);
}

}  // namespace rocattach::collector
