package listen

import (
	"strings"
	"testing"
)

// TestOthersOn checks that only other listeners on the same address are counted.
func TestOthersOn(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	row := func(local, state, inode string) string {
		return "   0: " + local + " 00000000:0000 " + state + " 00000000:00000000 00:00000000 00000000  1000        0 " + inode + " 1 0000000000000000 100 0 0 10 0\n"
	}
	ours := row("0100007F:2382", "0A", "7")
	for name, c := range map[string]struct {
		table string
		want  int
		found bool
	}{
		"alone":            {head + ours, 0, true},
		"two more":         {head + row("0100007F:2382", "0A", "6") + ours + row("0100007F:2382", "0A", "8"), 2, true},
		"another address":  {head + row("00000000:2382", "0A", "6") + ours, 0, true},
		"another port":     {head + ours + row("0100007F:2383", "0A", "8"), 0, true},
		"connections":      {head + ours + row("0100007F:2382", "01", "9"), 0, true},
		"not in the table": {head + row("0100007F:2382", "0A", "6"), 0, false},
		"malformed":        {head + "what\n" + ours, 0, false},
		"empty":            {"", 0, false},
	} {
		if n, found := countOtherSockets(strings.NewReader(c.table), 7); n != c.want || found != c.found {
			t.Errorf("%s: %d, %t; want %d, %t", name, n, found, c.want, c.found)
		}
	}
}

// TestOtherListeners checks that a second socket on the address counts until it is closed.
func TestOtherListeners(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		first, err := Listen(addr, PortOptions{ReusePort: true})
		if err != nil {
			t.Log(addr, err) // the machine may have no IPv6
			continue
		}
		defer first.Close()
		if n := CountOtherListeners(first); n != 0 {
			t.Errorf("%s: %d others beside one alone", addr, n)
		}
		second, err := Listen(first.Addr().String(), PortOptions{ReusePort: true})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := CountOtherListeners(first), CountOtherListeners(second); a != 1 || b != 1 {
			t.Errorf("%s: the first sees %d others, the second %d; want 1 each", addr, a, b)
		}
		second.Close()
		if n := CountOtherListeners(first); n != 0 {
			t.Errorf("%s: %d others after the second has closed", addr, n)
		}
	}
}
