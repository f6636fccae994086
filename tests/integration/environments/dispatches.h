// The function that the programs in all languages call.
#ifndef ROCATTACH_TESTS_INTEGRATION_ENVIRONMENTS_DISPATCHES_H_
#define ROCATTACH_TESTS_INTEGRATION_ENVIRONMENTS_DISPATCHES_H_

// Starts the runtime and dispatches. Then creates a file ready.XXXXXX in the directory
// $DISPATCHES_FOLDER, waits there for a file `go`, and dispatches the same number
// again. Prints the total. Returns 0; every failure ends the program with status 1.
int make_dispatches(void);

#endif  // ROCATTACH_TESTS_INTEGRATION_ENVIRONMENTS_DISPATCHES_H_
