package body

import (
	"testing"

	"penstock/proxy/access/limit"
)

// TestCopy checks that a copy shares no bytes with the original body. The memory of the copy must
// stay reserved until the copy is released. If the original body has a translation, the copy
// contains only the translation.
func TestCopy(t *testing.T) {
	budget := limit.NewMemoryBudget(100)
	var b, c Body
	b.Reset(budget)
	if c.CopyFrom(&b) {
		t.Error("there is a copy of nothing")
	}
	text := []byte("what the client wrote")
	b.client = &text
	translate := func(dst []byte) ([]byte, error) { return append(dst, "what it amounts to, in other words"...), nil }
	budget.SetLimit(4 << 10)
	if err := b.Translate(translate); err != nil {
		t.Fatal(err)
	}
	before := budget.UsedBytes()
	if !c.CopyFrom(&b) || string(c.Bytes()) != "what it amounts to, in other words" || budget.UsedBytes() != before+int64(len(c.Bytes())) {
		t.Errorf("the copy is %q, and %d bytes are held, of %d before", c.Bytes(), budget.UsedBytes(), before)
	}
	b.Release()
	if string(c.Bytes()) != "what it amounts to, in other words" {
		t.Errorf("it has become %q", c.Bytes())
	}
	var none Body
	budget.SetLimit(budget.UsedBytes())
	if none.CopyFrom(&c) || none.HasBytes() {
		t.Error("there is a copy without memory")
	}
	none.Release()
	c.Release()
	if n := budget.UsedBytes(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}
