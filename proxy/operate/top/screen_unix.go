//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
)

func watchSize() (resized <-chan struct{}, stop func()) {
	signals, out, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case out <- struct{}{}:
			case <-done:
				return
			}
		}
	}()
	return out, func() { signal.Stop(signals); close(done) }
}

func prepareOutput(*os.File) (restore func()) { return func() {} }
