// spin: keeps a processor busy until it is killed. Uses no GPU.
int main(void) {
  for (volatile unsigned long rounds = 0;; rounds++) {
  }
}
