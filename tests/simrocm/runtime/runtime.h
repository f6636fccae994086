// What the two halves of the simulated runtime know of each other.
#ifndef ROCATTACH_TESTS_SIMROCM_RUNTIME_RUNTIME_H_
#define ROCATTACH_TESTS_SIMROCM_RUNTIME_RUNTIME_H_

// Any function of the runtime. Whatever its arguments are, a function of this type that
// does nothing but call another one jumps to it, and leaves them where they are.
typedef long runtime_function(void);

// The real runtime's function of that name; one that fails where it has none.
runtime_function* real_function(const char* name);

// Looks up what the functions of newer releases call.
void find_functions(void);
// Puts them, and those that have to know of them, in the tables.
void set_newer_functions(void);

// The tables as they were at the start, without what tools have put there: at the end of
// the last hsa_shut_down.
void reset_tables(void);
// The same for programs: as tools do that restore the tables.
void simrocm_runtime_restore_tables(void);

// Sets an entry of a table, by the function's whole name, unless the table is too short
// for it.
void set_entry(const char* name, runtime_function* function);

#endif  // ROCATTACH_TESTS_SIMROCM_RUNTIME_RUNTIME_H_
