package failure

import (
	"strings"
	"testing"
	"time"

	"penstock/routing"
	"penstock/upstreams"
)

// TestFullText checks the error for a full pool. If some engines do not respond to probes, the
// error must mention them. If the request contains images, the error must contain the numbers that
// the contract requires.
func TestFullText(t *testing.T) {
	for _, c := range []struct {
		pool   upstreams.SlotPool
		silent int
		want   string
	}{
		{upstreams.PoolText, 0, "All slots of this model are in use. Retry after "},
		{upstreams.PoolText, 1, "No slots of this model are free: one of its engines does not answer its probes. Retry after "},
		{upstreams.PoolText, 2, "No slots of this model are free: 2 of its engines do not answer their probes. Retry after "},
		{upstreams.PoolVision, 0, "All vision slots of this model are in use (3 active of 4). Retry after "},
		{upstreams.PoolVision, 1, "No vision slots of this model are free (3 active of 4): one of its engines does not answer its probes. Retry after "},
	} {
		full := &routing.FullError{Pool: c.pool, Capacity: routing.Capacity{Active: 3, Total: 4}, Silent: c.silent}
		f := FromRoutingError(full, time.Second, 0)
		if got := f.API.Message; !strings.HasPrefix(got, c.want) || f.API.Status != 429 {
			t.Errorf("%d %s, want %s", f.API.Status, got, c.want)
		}
	}
}
