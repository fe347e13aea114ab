//go:build linux || darwin

package guardpage

import (
	"syscall"
	"testing"
)

// GuardedMemory returns at least size bytes of whole pages, between two unreadable pages. It frees
// them when the test ends.
func GuardedMemory(t testing.TB, size int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	const readWrite, ours = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_PRIVATE | syscall.MAP_ANON
	all, err := syscall.Mmap(-1, 0, size+2*page, readWrite, ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{all[:page], all[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : page+size]
}
