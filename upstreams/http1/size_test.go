package http1

import (
	"testing"
	"unsafe"
)

// TestExchangeSize limits the size of an Exchange. One more word would move an Exchange, and the
// lease that embeds it, into the allocator's next size class.
func TestExchangeSize(t *testing.T) {
	if size := unsafe.Sizeof(Exchange{}); unsafe.Sizeof(uintptr(0)) == 8 && size > 472 {
		t.Errorf("an exchange has %d bytes, want 472 at most", size)
	}
}
