package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage contains the CPU time of a process in microseconds, and its resident memory in bytes.
type Usage struct{ CPU, Memory float64 }

// ReadUsage reads the CPU time of all threads, and the resident memory, from /proc. It does not
// include threads that have ended, but no measured proxy ends threads.
func ReadUsage(pid int) (Usage, error) {
	id := strconv.Itoa(pid)
	s, err := ReadSchedulerTimes(id)
	if err != nil {
		return Usage{}, err
	}
	root := "/proc/" + id
	b, err := os.ReadFile(root + "/statm")
	if err != nil {
		return Usage{}, err
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return Usage{}, fmt.Errorf("read %s/statm: %w", root, err)
	}
	return Usage{CPU: s.ran / 1000, Memory: resident * float64(os.Getpagesize())}, nil
}

// schedulerTimes contains the scheduler's times for a process, in nanoseconds, as sums over all threads.
type schedulerTimes struct {
	ran    float64 // time running on a CPU
	Waited float64 // time runnable but waiting for a CPU
}

// ReadSchedulerTimes reads /proc/ID/task/*/schedstat, which exists only on Linux. id is a process id or
// "self".
func ReadSchedulerTimes(id string) (schedulerTimes, error) {
	pattern := "/proc/" + id + "/task/*/schedstat"
	threads, err := filepath.Glob(pattern)
	if err != nil || len(threads) == 0 {
		return schedulerTimes{}, fmt.Errorf("read the processor time of process %s: no %s", id, pattern)
	}
	var s schedulerTimes
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has just ended
		}
		var ran, waited float64
		if _, err := fmt.Sscan(string(b), &ran, &waited); err != nil {
			return schedulerTimes{}, fmt.Errorf("read %s: %w", path, err)
		}
		s.ran += ran
		s.Waited += waited
	}
	return s, nil
}

// FormatCPUs formats CPU numbers as Linux does, for example 0-3,5.
func FormatCPUs(list []int) string {
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		text := strconv.Itoa(list[i])
		if j > i {
			text += "-" + strconv.Itoa(list[j])
		}
		out = append(out, text)
		i = j + 1
	}
	return strings.Join(out, ",")
}
