package http1

import (
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/raced"
	"penstock/config/testkit/rawserver"
)

// TestUncheckedWrite checks that the next request on a keep-alive connection gets the correct
// response, regardless of what has happened to the connection. It runs with and without a check of
// the socket before the write. The acknowledgement check is off, because it would also detect
// leftover bytes.
func TestUncheckedWrite(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(p *rawserver.Peer)
		sends int // expected number of sends if the socket is not checked
	}{
		{"nothing", nil, 1},
		{"second reply", func(p *rawserver.Peer) { p.Send(rawserver.SizedResponse("forged")); p.ReadToEnd() }, 2},
		{"start of a second reply", func(p *rawserver.Peer) { p.Send("HTTP/1.1 200 OK\r\n"); p.ReadToEnd() }, 2},
		{"closed", func(*rawserver.Peer) {}, 2},
		{"half closed", func(p *rawserver.Peer) { _ = p.TCP.CloseWrite(); p.ReadToEnd() }, 2},
		{"reset", func(p *rawserver.Peer) { p.ResetOnClose() }, 2},
	}
	for _, way := range []string{"", ", unlooked", ", large, unlooked"} {
		for _, tt := range tests {
			name, unlooked, after := tt.name+way, way != "", "after"
			if way == ", large, unlooked" {
				after = strings.Repeat("after", maxSmallBody)
			}
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				read := make(chan bool)
				tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
					if p.N > 0 || tt.spoil == nil {
						rawserver.EchoRequests(p)
						return
					}
					for body := ""; body != "last"; {
						_, body, _ = p.ReadRequest()
						p.Send(rawserver.SizedResponse(body))
					}
					<-read
					tt.spoil(p)
				}).URL())
				tr.hosts.noReuseFor = 0
				mustEcho(t, tr, "first")
				c := tr.idle.conns[0]
				waitFor(t, "the kernel notes when bytes arrive", func() bool {
					mustEcho(t, tr, "next")
					return raced.Enabled || c.poll.hasTimestamps
				})
				mustEcho(t, tr, "last")
				if tt.spoil != nil {
					read <- true
					waitUnquiet(t, tr)
				}
				c.poll.isUnixSocket = true // disables the acknowledgement check
				c.poll.idleSince = time.Now().Add(-uncheckedWindow)
				want := 1
				if unlooked {
					c.poll.idleSince = time.Now().Add(time.Minute)
				}
				if unlooked && !raced.Enabled {
					want = tt.sends
				}
				x := mustEcho(t, tr, after)
				if x.SendCount() != want || x.delivery.reusedConn != (tt.spoil == nil) {
					t.Errorf("%d sends, want %d; reused %v", x.SendCount(), want, x.delivery.reusedConn)
				}
			})
		}
	}
}
