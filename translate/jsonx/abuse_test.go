package jsonx

import (
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/raced"
)

// TestAbuse checks that each text designed to be expensive is parsed in well under a second.
func TestAbuse(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector is slow")
	}
	for name, src := range map[string]string{
		"long number":       `{"n":` + strings.Repeat("9", 1_000_000) + `}`,
		"huge exponent":     `{"n":1e` + strings.Repeat("9", 1_000_000) + `}`,
		"depth":             strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"members":           `{` + strings.Repeat(`"a":1,`, 100_000) + `"a":1}`,
		"messages":          `{"messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, 1_000_000) + `{}]}`,
		"elements":          `[` + strings.Repeat("1,", 8<<20) + `1]`,
		"blanks":            `{` + strings.Repeat(" \n\t\r", 8<<20) + `}`,
		"escapes":           `{"n":"` + strings.Repeat(`\u0041`, 4<<20) + `"}`,
		"open string":       `{"n":"` + strings.Repeat(`\\`, 8<<20),
		"objects in arrays": `[` + strings.Repeat(`[{},[[]]],`, 1<<20) + `1]`,
	} {
		begin := time.Now()
		var d Doc
		err := d.Parse([]byte(src), Options{})
		parsed := time.Since(begin)
		n := d.Root().Get("n")
		n.Int()
		n.Float()
		n.AppendText(nil)
		if cap(d.nodes) > DefaultMaxNodes {
			t.Errorf("%s: room for %d nodes, want at most %d", name, cap(d.nodes), DefaultMaxNodes)
		}
		if all := time.Since(begin); all > 10*time.Second { // quadratic work would take hours
			t.Errorf("%s: %v, of which Parse %v", name, all, parsed)
		} else {
			t.Logf("%-18s %4d KiB: Parse %v, all %v, %v", name, len(src)>>10, parsed.Round(time.Millisecond), all.Round(time.Millisecond), err)
		}
	}
}
