// Shared by the two halves of the simulated runtime.
#ifndef ROCATTACH_TESTS_SIMROCM_RUNTIME_RUNTIME_H_
#define ROCATTACH_TESTS_SIMROCM_RUNTIME_RUNTIME_H_

// Any function of the runtime. A function of this type that only calls another one is
// compiled to a jump, which leaves the arguments, whatever they are, in their places.
typedef long runtime_function(void);

// The real runtime's function of that name; if it has none, one that fails.
runtime_function* real_function(const char* name);

// Looks up the real functions that those of newer releases call.
void find_functions(void);
// Stores the newer functions, and others that must support them, in the tables.
void set_newer_functions(void);

// Resets the tables to their initial contents, without functions of tools: at the end
// of the last hsa_shut_down.
void reset_tables(void);
// The same for programs: simulates tools that restore the tables.
void simrocm_runtime_restore_tables(void);

// Sets an entry of a table, by the function's full name, unless the table is too short
// for it.
void set_entry(const char* name, runtime_function* function);

#endif  // ROCATTACH_TESTS_SIMROCM_RUNTIME_RUNTIME_H_
