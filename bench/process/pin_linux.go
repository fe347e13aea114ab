package process

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// AllowedCPUs returns the CPUs that this process may run on.
func AllowedCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var out []int
	for i := range len(set) * strconv.IntSize {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out
}

// pinThread pins the calling thread, and the processes that it starts, to CPUs until undo is
// called. The goroutine must be locked to its thread.
func pinThread(to []int) (undo func(), err error) { return pin(0, to) }

// PinProcess pins all threads of this process to CPUs until undo is called. A new thread inherits
// the CPUs of the thread that starts it.
func PinProcess(to []int) (undo func(), err error) {
	var all []func()
	undo = func() {
		for _, one := range all {
			one()
		}
	}
	for seen, more := map[string]bool{}, true; more; {
		threads, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			return undo, err
		}
		more = false
		for _, path := range threads {
			if seen[path] {
				continue
			}
			seen[path], more = true, true
			id, err := strconv.Atoi(filepath.Base(path))
			if err != nil {
				return undo, err
			}
			one, err := pin(id, to)
			if err != nil {
				if _, gone := os.Stat(path); gone != nil {
					continue
				}
				return undo, err
			}
			all = append(all, one)
		}
	}
	return undo, nil
}

func pin(thread int, to []int) (undo func(), err error) {
	var was, set unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &was); err != nil {
		return func() {}, os.NewSyscallError("sched_getaffinity", err)
	}
	for _, i := range to {
		set.Set(i)
	}
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return func() {}, os.NewSyscallError("sched_setaffinity", err)
	}
	return func() { _ = unix.SchedSetaffinity(thread, &was) }, nil
}
