package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// upgradeServer accepts one connection, responds to the handshake with the text that answer
// returns, and then calls the function then.
func upgradeServer(t *testing.T, answer func(r *http.Request) string, then func(c net.Conn, in *bufio.Reader)) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, answer(r))
		then(c, in)
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return "http://" + ln.Addr().String() + "/base"
}

func switchingProtocols(r *http.Request) string {
	return fmt.Sprintf("HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		AcceptKey(r.Header.Get("Sec-WebSocket-Key")))
}

func sendUpgrade(t *testing.T, tr *Transport) (*Exchange, *WebSocketHandshake) {
	t.Helper()
	x, u := tr.NewExchange(), NewWebSocketHandshake()
	t.Cleanup(x.Close)
	if err := x.Send(&Request{Method: "POST", Path: "/v1/realtime?a=b", BodyReader: u, RequestID: []byte("req_1")}); err != nil {
		t.Fatal(err)
	}
	if err := x.Await(inThirtySeconds()); err != nil {
		t.Fatal(err)
	}
	return x, u
}

// TestUpgrade checks a handshake, bytes that arrive together with the response to it, and bytes in
// both directions. It also checks that Abort ends a read.
func TestUpgrade(t *testing.T) {
	checkLeaks(t)
	asked := make(chan *http.Request, 1)
	url := upgradeServer(t, func(r *http.Request) string {
		asked <- r
		return switchingProtocols(r) + "early"
	}, func(c net.Conn, in *bufio.Reader) {
		_, _ = io.Copy(c, in)
	})
	x, u := sendUpgrade(t, transportTo(t, url, func(o *TransportOptions) { o.APIKey = "secret" }))
	r := <-asked
	if r.Method != "GET" || r.URL.String() != "/base/v1/realtime?a=b" || r.Header.Get("Authorization") != "Bearer secret" ||
		r.Header.Get("Sec-WebSocket-Version") != "13" || r.Header.Get("X-Request-Id") != "req_1" || r.ContentLength != 0 {
		t.Errorf("%+v", r)
	}
	conn, err := x.UpgradedConn(u)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, " and late"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("early and late"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "early and late" {
		t.Errorf("%q, %v", got, err)
	}
	why := errors.New("enough")
	timer := time.AfterFunc(10*time.Millisecond, func() { x.Abort(why) })
	defer timer.Stop()
	_, err = conn.Read(got)
	var f *Failure
	if err == nil || !errors.As(x.ConvertFailure(err), &f) || f.Kind != KindAborted || !errors.Is(f.Err, why) {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestUpgradeRefused checks responses that do not accept the handshake. Afterwards, the upstream's
// connections must still be reused.
func TestUpgradeRefused(t *testing.T) {
	checkLeaks(t)
	for name, answer := range map[string]string{
		"no accept":    "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nmore",
		"wrong accept": "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n",
		"no upgrade":   "HTTP/1.1 101 X\r\n\r\n",
		"status":       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	} {
		distrusted := false
		url := upgradeServer(t, func(*http.Request) string { return answer }, func(net.Conn, *bufio.Reader) {})
		x, u := sendUpgrade(t, transportTo(t, url, func(o *TransportOptions) {
			o.Hosts = NewHostWatch(func(time.Duration) { distrusted = true })
		}))
		_, err := x.UpgradedConn(u)
		var f *Failure
		if !errors.As(err, &f) || f.Kind != KindBadResponse || f.Reason != ReasonInvalid {
			t.Errorf("%s: %v", name, err)
		}
		x.Close()
		if distrusted {
			t.Errorf("%s: the upstream's connections are distrusted", name)
		}
	}
}

// TestUpgradeLost checks the failure that results when an engine closes an upgraded connection.
func TestUpgradeLost(t *testing.T) {
	checkLeaks(t)
	url := upgradeServer(t, switchingProtocols, func(net.Conn, *bufio.Reader) {})
	x, u := sendUpgrade(t, transportTo(t, url))
	conn, err := x.UpgradedConn(u)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	var f *Failure
	if !errors.As(x.ConvertFailure(err), &f) || f.Kind != KindBadResponse || !f.Sent {
		t.Errorf("%v, %+v", err, f)
	}
}
