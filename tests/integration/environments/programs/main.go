// make_dispatches in Go, called by a goroutine while others work.
package main

// int make_dispatches(void);
import "C"
import (
	"os"
	"time"
)

func main() {
	for i := 0; i < 4; i++ {
		go func() {
			for {
				_ = make([]byte, 1<<16)
				time.Sleep(time.Millisecond)
			}
		}()
	}
	status := make(chan C.int)
	go func() { status <- C.make_dispatches() }()
	os.Exit(int(<-status))
}
