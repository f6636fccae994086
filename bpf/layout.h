/* Collects what an injector must know of a held process's address space: where the
 * files that matter are mapped. Reading /proc/PID/maps for this takes longer than the
 * rest of an attach. Needs the kernel's iterator over the mappings of a task (Linux
 * 6.7); without it the service reads /proc. */
#ifndef ROCATTACH_BPF_LAYOUT_H_
#define ROCATTACH_BPF_LAYOUT_H_

#include "bpf/frame.h"

/* include/linux/mm.h */
#define VM_READ 0x1ul
#define VM_WRITE 0x2ul
#define VM_EXEC 0x4ul
#define VM_SHARED 0x8ul
#define VM_GROWSDOWN 0x100ul
#define VM_ACCESS (VM_READ | VM_WRITE | VM_EXEC | VM_SHARED | VM_GROWSDOWN)
#define PAGE_BITS 12
/* include/linux/time64.h, include/linux/fs.h: the highest bit of i_ctime_nsec means
 * that the time has been queried (6.13). */
#define NSEC_PER_SEC 1000000000ull
#define NSEC_MASK 0x3fffffffu

/* kernel/bpf/task_iter.c */
struct bpf_iter_task_vma {
  __u64 opaque[1];
} __attribute__((aligned(8)));
extern int bpf_iter_task_vma_new(struct bpf_iter_task_vma* it, struct task_struct* task,
                                 __u64 address) __ksym __weak;
extern struct vm_area_struct* bpf_iter_task_vma_next(
    struct bpf_iter_task_vma* it) __ksym __weak;
extern void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma* it) __ksym __weak;

/* Set before loading if the kernel has the iterator: otherwise the code that calls it
 * is dead, and the verifier removes it. */
const volatile __u32 read_layouts = 0;

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, ROCATTACH_LAYOUTS);
  __type(key, __u32);
  __type(value, struct rocattach_layout);
} layouts SEC(".maps");

/* The kinds of files that the service has determined: enum rocattach_file_kind. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 16384);
  __type(key, struct rocattach_file_key);
  __type(value, __u8);
} file_kinds SEC(".maps");

__u32 next_layout;

FRAME struct rocattach_layout* get_layout(__u32 number) {
  __u32 index = number % ROCATTACH_LAYOUTS;
  return bpf_map_lookup_elem(&layouts, &index);
}

/* Takes the next layout for a window; returns its index. If it is still in use, it is
 * taken from a much older window, whose reader will see a different time in it. */
FRAME __u32 take_layout(__u64 opened_ns) {
  __u32 number = TAKE_NUMBER(&next_layout) % ROCATTACH_LAYOUTS;
  struct rocattach_layout* layout = get_layout(number);
  if (!layout) return 0;
  layout->window_ns = 0;
  layout->tid = READ(current_task(), pid);
  layout->held_ns = opened_ns;
  return number;
}

/* The change time of an inode: contents that were replaced in place have a different
 * one. */
FRAME __u64 version_of(struct inode* inode) {
  if (bpf_core_field_exists(inode->i_ctime_sec))
    return BPF_CORE_READ(inode, i_ctime_sec) * NSEC_PER_SEC +
           (BPF_CORE_READ(inode, i_ctime_nsec) & NSEC_MASK);
  struct inode___before_6_11* older = (void*)inode;
  return BPF_CORE_READ(older, __i_ctime.tv_sec) * NSEC_PER_SEC +
         BPF_CORE_READ(older, __i_ctime.tv_nsec);
}

FRAME int fill_key(struct rocattach_file_key* key, struct inode* inode) {
  key->inode = BPF_CORE_READ(inode, i_ino);
  key->device = BPF_CORE_READ(inode, i_sb, s_dev);
  key->pad = 0;
  key->version = version_of(inode);
  return 0;
}

FRAME const unsigned char* name_of(struct file* file) {
  struct dentry* dentry = BPF_CORE_READ(file, f_path.dentry);
  return BPF_CORE_READ(dentry, d_name.name);
}

/* True for a collector's shared memory, which only a process with a collector maps. */
FRAME int is_collector_memory(struct file* file) {
  union {
    char text[sizeof(ROCATTACH_MEMORY_NAME)];
    __u64 words[2];
  } name = {}, wanted = {ROCATTACH_MEMORY_NAME};
  _Static_assert(sizeof(name) == 16, "compared as two words");
  /* Without the terminator: more may follow. */
  bpf_core_read(name.text, sizeof(name.text) - 1, name_of(file));
  return name.words[0] == wanted.words[0] && name.words[1] == wanted.words[1];
}

/* Describes a mapping in the next free entry, which becomes valid when the count
 * includes it. */
FRAME int describe(struct vm_area_struct* vma, struct rocattach_layout* layout) {
  __u32 index = layout->count;
  struct rocattach_mapped_file* file;
  __u8* kind;
  if (index >= ROCATTACH_LAYOUT_FILES) {
    layout->flags |= ROCATTACH_LAYOUT_FULL;
    return 0;
  }
  file = &layout->files[index];
  fill_key(&file->key, BPF_CORE_READ(vma, vm_file, f_inode));
  kind = bpf_map_lookup_elem(&file_kinds, &file->key);
  if (!kind) layout->flags |= ROCATTACH_LAYOUT_UNKNOWN;
  file->start = vma->vm_start;
  file->end = vma->vm_end;
  file->offset = (__u64)vma->vm_pgoff << PAGE_BITS;
  file->access = vma->vm_flags & VM_ACCESS;
  file->kind = kind ? *kind : ROCATTACH_FILE_UNKNOWN;
  if (file->kind == ROCATTACH_FILE_PLAIN &&
      !(layout->ip >= file->start && layout->ip < file->end))
    return 0;
  layout->count = index + 1;
  return 0;
}

FRAME int look_at(struct vm_area_struct* vma, struct rocattach_layout* layout) {
  struct file* file;
  if (layout->sp - 1 >= vma->vm_start && layout->sp - 1 < vma->vm_end) {
    layout->stack_start = vma->vm_start;
    layout->stack_end = vma->vm_end;
    layout->stack_access = vma->vm_flags & VM_ACCESS;
  }
  /* Loaded once: from Linux 7.2 on, the verifier allows arithmetic only on the very
   * pointer that was compared with null. The compiler must not load it again. */
  file = vma->vm_file;
  barrier_var(file);
  if (!file) return 0;
  if (vma->vm_flags & VM_EXEC) return describe(vma, layout);
  if (vma->vm_flags & VM_SHARED && is_collector_memory(file))
    layout->flags |= ROCATTACH_LAYOUT_COLLECTOR;
  return 0;
}

/* Goes through all mappings. False if another thread is changing them. */
FRAME int walk(struct rocattach_layout* layout) {
  struct bpf_iter_task_vma it;
  struct vm_area_struct* vma;
  int failed = bpf_iter_task_vma_new(&it, current_task(), 0);
  while ((vma = bpf_iter_task_vma_next(&it))) look_at(vma, layout);
  bpf_iter_task_vma_destroy(&it);
  return !failed;
}

/* Describes the calling process in its window's layout. */
FRAME int fill_layout(struct pt_regs* ctx, __u32 number, __u64 opened_ns) {
  struct rocattach_layout* layout = get_layout(number);
  if (!read_layouts || !layout) return 0;
  layout->count = 0;
  layout->flags = 0;
  layout->ip = ctx->ip;
  layout->sp = ctx->sp;
  layout->stack_start = layout->stack_end = 0;
  if (!walk(layout)) return 0;
  /* Everything is written before the time that marks it complete; on x86, stores become
   * visible in order. */
  barrier();
  layout->window_ns = opened_ns;
  return 0;
}

/* The hold is over: a process that the service considers alive because of this layout
 * may end from now on. */
FRAME int leave_layout(__u32 number, __u64 opened_ns) {
  struct rocattach_layout* layout = get_layout(number);
  if (layout) (void)SWAP(&layout->held_ns, opened_ns, 0);
  return 0;
}

#endif /* ROCATTACH_BPF_LAYOUT_H_ */
