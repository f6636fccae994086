// make_dispatches in Java, while other threads make garbage.
public class Dispatches {
  static native int make();

  public static void main(String[] arguments) {
    System.load(arguments[0]);
    for (int i = 0; i < 2; ++i) {
      Thread thread = new Thread(() -> {
        for (long sum = 0; ; sum += new byte[1 << 16].length) Thread.yield();
      });
      thread.setDaemon(true);
      thread.start();
    }
    System.exit(make());
  }
}
