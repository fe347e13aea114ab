package admin

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
)

// TestTokenGate checks that wrong tokens block the client's address, and that a correct token from
// a blocked address is rejected only if the token is short.
func TestTokenGate(t *testing.T) {
	for _, row := range []struct {
		name, token string
		right       int // response status for the correct token from a blocked address
	}{
		{"long", strings.Repeat("x", config.MinAdminTokenLen), 0},
		{"short", strings.Repeat("x", config.MinAdminTokenLen-1), 429},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, now := newTokenGate(zap.NewNop(), metrics.NewSet()), time.Now()
			ask := func(host, token string) int {
				var r fasthttp.Request
				r.Header.Set("Authorization", "Bearer "+token)
				var ctx fasthttp.RequestCtx
				ctx.Init(&r, &net.TCPAddr{IP: net.ParseIP(host), Port: 1}, nil)
				if _, e := g.authenticate(&ctx, &config.Admin{Token: config.Secret(row.token)}, now); e != nil {
					return e.Status
				}
				return 0
			}
			const guesser, other = "192.0.2.1", "192.0.2.2"
			last := 0
			for range 100 {
				last = ask(guesser, "wrong")
			}
			if last != 429 {
				t.Errorf("the hundredth wrong token in a row: %d", last)
			}
			if got := ask(guesser, row.token); got != row.right {
				t.Errorf("the right token from there: %d, want %d", got, row.right)
			}
			if got := ask(other, row.token); got != 0 {
				t.Errorf("the right token from elsewhere: %d", got)
			}
		})
	}
}
