package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage contains the CPU time of a process in microseconds, and its resident memory in bytes.
type Usage struct {
	CPU, Memory  float64
	user, kernel float64 // CPU time in clock ticks, less exact than CPU
}

// UserShare returns the share of the CPU time since begin that was spent in user mode.
func (u Usage) UserShare(begin Usage) float64 {
	user, kernel := u.user-begin.user, u.kernel-begin.kernel
	return user / max(user+kernel, 1)
}

// ReadUsage reads the CPU time of all threads, and the resident memory, from /proc. Threads that
// have ended are missing, but the measured proxies never end threads.
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
	user, kernel, err := readTicks(root + "/stat")
	return Usage{CPU: s.ran / 1000, Memory: resident * float64(os.Getpagesize()), user: user, kernel: kernel}, err
}

// readTicks reads the CPU time in user mode and in the kernel from /proc/ID/stat. The name of the
// program, the second field, may contain blanks and is in parentheses.
func readTicks(file string) (user, kernel float64, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	const userField, kernelField = 11, 12 // after the name
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) <= kernelField {
		return 0, 0, fmt.Errorf("read %s: %d fields", file, len(fields))
	}
	if _, err := fmt.Sscan(fields[userField]+" "+fields[kernelField], &user, &kernel); err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", file, err)
	}
	return user, kernel, nil
}

// schedulerTimes contains the scheduler's times for a process, in nanoseconds, as sums over all
// threads.
type schedulerTimes struct {
	ran    float64 // time running on a CPU
	Waited float64 // time runnable but waiting for a CPU
}

// ReadSchedulerTimes reads /proc/ID/task/*/schedstat, which exists only on Linux. id is a process
// id or "self".
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
