/* A library whose constructor does what the program that loads it says. */
extern void constructor_hook(void) __attribute__((weak));

__attribute__((constructor)) static void construct(void) {
  if (constructor_hook) constructor_hook();
}
