/* The cost of entering a process in the simple way, for comparison: one stop for each
 * step, memory written word by word, breakpoints in the program's entry code. It calls
 * dlopen(LIBRARY) on the given thread in four steps: map memory, write the path, call,
 * unmap. Not for real programs: it saves no vector registers, and if it dies between
 * two steps the program does too.
 *
 *   bench_stop_and_poke PID LIBRARY
 *
 * Prints stops=N sum_ns=N longest_ns=N call_ns=N: how often and how long the thread was
 * stopped, and how long the calls took that it executed between the stops. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

static pid_t target;
static uint64_t entry; /* of the program: code that does not run any more */
static uint64_t stops, sum_ns, longest_ns, call_ns, stopped_at;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void check(long result, const char* what) {
  if (result != -1) return;
  perror(what);
  exit(1);
}

static void wait_for_stop(void) {
  int status;
  check(waitpid(target, &status, __WALL), "waitpid");
  if (!WIFSTOPPED(status)) {
    fprintf(stderr, "the process has ended\n");
    exit(1);
  }
}

static void stop(void) {
  stopped_at = now_ns();
  check(ptrace(PTRACE_INTERRUPT, target, NULL, NULL), "PTRACE_INTERRUPT");
  wait_for_stop();
}

static void resume(void) {
  check(ptrace(PTRACE_CONT, target, NULL, NULL), "PTRACE_CONT");
  const uint64_t took = now_ns() - stopped_at;
  stops++;
  sum_ns += took;
  if (took > longest_ns) longest_ns = took;
}

/* Runs `code` at the entry point with these registers; returns rax. */
static uint64_t run(uint64_t code, struct user_regs_struct registers) {
  struct user_regs_struct before, after;
  stop();
  check(ptrace(PTRACE_GETREGS, target, NULL, &before), "PTRACE_GETREGS");
  errno = 0;
  const long saved = ptrace(PTRACE_PEEKTEXT, target, entry, NULL);
  if (errno != 0) check(-1, "PTRACE_PEEKTEXT");
  const uint64_t word = ((uint64_t)saved & ~0xffffffull) | code;
  check(ptrace(PTRACE_POKETEXT, target, entry, word), "PTRACE_POKETEXT");
  struct user_regs_struct changed = before;
  changed.rip = entry;
  changed.rsp = (before.rsp - 128) & ~15ull;
  changed.orig_rax = ~0ull;
  changed.rax = registers.rax;
  changed.rdi = registers.rdi;
  changed.rsi = registers.rsi;
  changed.rdx = registers.rdx;
  changed.r10 = registers.r10;
  changed.r8 = registers.r8;
  changed.r9 = registers.r9;
  check(ptrace(PTRACE_SETREGS, target, NULL, &changed), "PTRACE_SETREGS");
  resume();
  const uint64_t begin = now_ns();
  wait_for_stop(); /* the breakpoint */
  stopped_at = now_ns();
  call_ns += stopped_at - begin;
  check(ptrace(PTRACE_GETREGS, target, NULL, &after), "PTRACE_GETREGS");
  check(ptrace(PTRACE_POKETEXT, target, entry, saved), "PTRACE_POKETEXT");
  check(ptrace(PTRACE_SETREGS, target, NULL, &before), "PTRACE_SETREGS");
  resume();
  return after.rax;
}

static uint64_t run_syscall(uint64_t number, uint64_t a, uint64_t b, uint64_t c,
                            uint64_t d, uint64_t e) {
  struct user_regs_struct registers = {0};
  registers.rax = number;
  registers.rdi = a;
  registers.rsi = b;
  registers.rdx = c;
  registers.r10 = d;
  registers.r8 = e;
  return run(0xcc050f, registers); /* syscall; int3 */
}

static void write_words(uint64_t address, const char* text) {
  stop();
  const size_t bytes = strlen(text) + 1;
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    const size_t part = bytes - at < sizeof(word) ? bytes - at : sizeof(word);
    memcpy(&word, text + at, part);
    check(ptrace(PTRACE_POKEDATA, target, address + at, word), "PTRACE_POKEDATA");
  }
  resume();
}

/* Address of the first mapping of libc in `pid` ("self": this process). */
static uint64_t libc_base(const char* pid) {
  char path[64], line[512];
  snprintf(path, sizeof(path), "/proc/%s/maps", pid);
  FILE* maps = fopen(path, "r");
  uint64_t base = 0;
  while (maps != NULL && base == 0 && fgets(line, sizeof(line), maps) != NULL) {
    if (strstr(line, "/libc.so.6") != NULL) base = strtoull(line, NULL, 16);
  }
  if (maps != NULL) fclose(maps);
  if (base == 0) {
    fprintf(stderr, "no libc in process %s\n", pid);
    exit(1);
  }
  return base;
}

static uint64_t entry_of(const char* pid) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%s/auxv", pid);
  FILE* file = fopen(path, "r");
  Elf64_auxv_t item;
  uint64_t found = 0;
  while (file != NULL && fread(&item, sizeof(item), 1, file) == 1) {
    if (item.a_type == AT_ENTRY) found = item.a_un.a_val;
  }
  if (file != NULL) fclose(file);
  return found;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  target = atoi(argv[1]);
  entry = entry_of(argv[1]);
  if (entry == 0) return 1;
  const uint64_t function =
      libc_base(argv[1]) + ((uint64_t)(uintptr_t)&dlopen - libc_base("self"));
  check(ptrace(PTRACE_SEIZE, target, NULL, NULL), "PTRACE_SEIZE");
  const uint64_t memory = run_syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1);
  write_words(memory, argv[2]);
  struct user_regs_struct registers = {0};
  registers.rax = function;
  registers.rdi = memory;
  registers.rsi = RTLD_NOW;
  const uint64_t handle = run(0xccd0ff, registers); /* call *%rax; int3 */
  run_syscall(SYS_munmap, memory, 4096, 0, 0, 0);
  stop();
  check(ptrace(PTRACE_DETACH, target, NULL, NULL), "PTRACE_DETACH");
  if (handle == 0) {
    fprintf(stderr, "dlopen(%s) failed\n", argv[2]);
    return 1;
  }
  printf("stops=%lu sum_ns=%lu longest_ns=%lu call_ns=%lu\n", stops, sum_ns, longest_ns,
         call_ns);
  return 0;
}
