package filewatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// runWatcher runs a Watcher without events in a synctest bubble and counts the calls to OnChange.
func runWatcher(t *testing.T, paths ...string) *atomic.Int32 {
	t.Helper()
	var calls atomic.Int32
	w := &Watcher{
		Paths:    func() []string { return paths },
		Interval: 2 * time.Second,
		OnChange: func() { calls.Add(1) },
	}
	w.RecordHashes()
	go w.loop(t.Context(), &dirWatch{})
	synctest.Wait()
	return &calls
}

func expectCalls(t *testing.T, calls *atomic.Int32, want int32) {
	t.Helper()
	synctest.Wait()
	if got := calls.Load(); got != want {
		t.Fatalf("%d calls, want %d", got, want)
	}
}

func TestWatcherLooksAtIntervals(t *testing.T) {
	dir := t.TempDir()
	file, second := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "keys.yaml")
	write(t, file, []byte("1"))
	synctest.Test(t, func(t *testing.T) {
		calls := runWatcher(t, file, second)
		time.Sleep(10 * time.Second)
		expectCalls(t, calls, 0)

		write(t, file, []byte("2"))
		time.Sleep(2*time.Second + settleTime - time.Millisecond)
		expectCalls(t, calls, 0) // the change has been noticed, but writing may not be complete
		time.Sleep(settleTime)
		expectCalls(t, calls, 1)

		write(t, file, []byte("2")) // the same content
		time.Sleep(10 * time.Second)
		expectCalls(t, calls, 1)

		write(t, second, []byte("new"))
		time.Sleep(3 * time.Second)
		expectCalls(t, calls, 2)

		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		expectCalls(t, calls, 3)
		write(t, file, []byte("2"))
		time.Sleep(3 * time.Second)
		expectCalls(t, calls, 4)
	})
}

// TestWatcherWaitsForAMovedFile checks that no change is reported if a file is missing for only a
// second while an editor saves it.
func TestWatcherWaitsForAMovedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, []byte("0"))
	synctest.Test(t, func(t *testing.T) {
		calls := runWatcher(t, file)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(removalDelay) // the removal is reported after one more settle time
		expectCalls(t, calls, 0)
		write(t, file, []byte("1"))
		time.Sleep(3 * time.Second)
		expectCalls(t, calls, 1)
	})
}

// TestWatcherWaitsForAWriter checks that no change is reported while a file grows.
func TestWatcherWaitsForAWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, []byte("0"))
	synctest.Test(t, func(t *testing.T) {
		calls := runWatcher(t, file)
		for i := range 50 {
			write(t, file, []byte(fmt.Sprint("part ", i)))
			time.Sleep(150 * time.Millisecond)
			expectCalls(t, calls, 0)
		}
		time.Sleep(2*settleTime + time.Millisecond)
		expectCalls(t, calls, 1)
	})
}

// TestWatcherForgetsARevertedChange checks that a change that is reverted before it settles is not
// reported.
func TestWatcherForgetsARevertedChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, []byte("0"))
	synctest.Test(t, func(t *testing.T) {
		calls := runWatcher(t, file)
		time.Sleep(time.Second) // past the first check
		write(t, file, []byte("1"))
		time.Sleep(time.Second + 50*time.Millisecond)
		write(t, file, []byte("0"))
		time.Sleep(10 * time.Second)
		expectCalls(t, calls, 0)
	})
}

// TestWatcherSeesWhatChangedBeforeRun checks that Run notices changes that happened between
// RecordHashes and Run.
func TestWatcherSeesWhatChangedBeforeRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, []byte("0"))
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		w := &Watcher{Paths: func() []string { return []string{file} }, OnChange: func() { calls.Add(1) }}
		w.RecordHashes()
		write(t, file, []byte("1"))
		go w.loop(t.Context(), &dirWatch{})
		time.Sleep(3 * settleTime)
		expectCalls(t, &calls, 1)
	})
}

// TestWatcherReportsNewPaths checks that adding a path to the list is reported as a change once its
// file exists, and that removing a path is not.
func TestWatcherReportsNewPaths(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, []byte("a"))
	write(t, b, []byte("b"))
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		var paths atomic.Pointer[[]string]
		paths.Store(&[]string{a})
		w := &Watcher{Paths: func() []string { return *paths.Load() }, Interval: time.Second, OnChange: func() { calls.Add(1) }}
		w.RecordHashes()
		go w.loop(t.Context(), &dirWatch{})
		paths.Store(&[]string{a, b})
		time.Sleep(3 * time.Second)
		expectCalls(t, &calls, 1)
		paths.Store(&[]string{b})
		time.Sleep(3 * time.Second)
		expectCalls(t, &calls, 1)

		late := filepath.Join(dir, "late")
		paths.Store(&[]string{b, late})
		time.Sleep(3 * time.Second)
		expectCalls(t, &calls, 1)
		write(t, late, []byte("late"))
		time.Sleep(3 * time.Second)
		expectCalls(t, &calls, 2)
	})
}

// TestWatcherDoesNotReadPipes checks that a path that is not a regular file does not block the
// watcher.
func TestWatcherDoesNotReadPipes(t *testing.T) {
	done := make(chan contentHash, 1)
	go func() { done <- hashFile("/dev/zero") }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("it reads on and on")
	}
}

// TestWatcherOnEvents checks that events from the system lead to reports if files are replaced in
// different ways. The check interval is too long to have an effect.
func TestWatcherOnEvents(t *testing.T) {
	rename := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, to, name string) {
		t.Helper()
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]struct {
		setup, change func(t *testing.T, path string)
	}{
		"written in place": {
			setup:  func(t *testing.T, path string) { write(t, path, []byte("1")) },
			change: func(t *testing.T, path string) { write(t, path, []byte("2")) },
		},
		"renamed over": {
			setup: func(t *testing.T, path string) { write(t, path, []byte("1")) },
			change: func(t *testing.T, path string) {
				write(t, path+".new", []byte("2"))
				rename(t, path+".new", path)
			},
		},
		"moved away and written anew": {
			setup: func(t *testing.T, path string) { write(t, path, []byte("1")) },
			change: func(t *testing.T, path string) {
				rename(t, path, path+"~")
				write(t, path, []byte("2"))
			},
		},
		"..data of a ConfigMap is swapped": {
			setup: func(t *testing.T, path string) {
				dir := filepath.Dir(path)
				write(t, filepath.Join(dir, "..1", "config.yaml"), []byte("1"))
				link(t, "..1", filepath.Join(dir, "..data"))
				link(t, "..data/config.yaml", path)
			},
			change: func(t *testing.T, path string) {
				dir := filepath.Dir(path)
				write(t, filepath.Join(dir, "..2", "config.yaml"), []byte("2"))
				link(t, "..2", filepath.Join(dir, "..tmp"))
				rename(t, filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data"))
				if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
					t.Fatal(err)
				}
			},
		},
		"what a symlink leads to is written": {
			setup: func(t *testing.T, path string) {
				write(t, filepath.Join(filepath.Dir(path), "real", "c"), []byte("1"))
				link(t, "real/c", path)
			},
			change: func(t *testing.T, path string) {
				write(t, filepath.Join(filepath.Dir(path), "real", "c"), []byte("2"))
			},
		},
		"comes into being": {
			setup:  func(*testing.T, string) {},
			change: func(t *testing.T, path string) { write(t, path, []byte("1")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			row.setup(t, path)
			changed := make(chan struct{}, 16)
			w := &Watcher{
				Paths:    func() []string { return []string{path} },
				Interval: time.Hour,
				OnChange: func() { changed <- struct{}{} },
			}
			w.RecordHashes()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { w.Run(ctx); close(done) }()
			time.Sleep(20 * time.Millisecond)
			row.change(t, path)
			select {
			case <-changed:
			case <-time.After(10 * time.Second):
				t.Fatal("not noticed")
			}
			select {
			case <-changed:
				t.Error("told twice")
			case <-time.After(3 * settleTime):
			}
			cancel()
			<-done
		})
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
