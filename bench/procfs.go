package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// processUsage is what a process has used so far: microseconds of processor time, and bytes of resident memory now.
type processUsage struct{ cpu, memory float64 }

// processUse reads /proc: the run time of every thread, and the resident pages from statm. Threads that have ended are not counted: none
// of the proxies measured here ends any.
func processUse(pid int) (processUsage, error) {
	id := strconv.Itoa(pid)
	s, err := schedule(id)
	if err != nil {
		return processUsage{}, err
	}
	root := "/proc/" + id
	b, err := os.ReadFile(root + "/statm")
	if err != nil {
		return processUsage{}, err
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return processUsage{}, fmt.Errorf("read %s/statm: %w", root, err)
	}
	return processUsage{cpu: s.ran / 1000, memory: resident * float64(os.Getpagesize())}, nil
}

// scheduled is what the scheduler knows of a process, in nanoseconds over all its threads.
type scheduled struct {
	ran    float64 // on a processor
	waited float64 // ready to run, and no processor was free
}

// schedule reads /proc/ID/task/*/schedstat, which Linux alone has; id is a number, or self.
func schedule(id string) (scheduled, error) {
	pattern := "/proc/" + id + "/task/*/schedstat"
	threads, err := filepath.Glob(pattern)
	if err != nil || len(threads) == 0 {
		return scheduled{}, fmt.Errorf("read the processor time of process %s: no %s", id, pattern)
	}
	var s scheduled
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has just ended
		}
		var ran, waited float64
		if _, err := fmt.Sscan(string(b), &ran, &waited); err != nil {
			return scheduled{}, fmt.Errorf("read %s: %w", path, err)
		}
		s.ran += ran
		s.waited += waited
	}
	return s, nil
}
