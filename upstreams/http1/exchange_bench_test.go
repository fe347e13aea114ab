package http1

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

// BenchmarkExchange measures an exchange with a minimal server on loopback, with bodies of 1 KB in
// each direction.
func BenchmarkExchange(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	reply := []byte(rawserver.SizedResponse(strings.Repeat("a", 1024)))
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				p := make([]byte, 8192)
				for {
					n, err := c.Read(p)
					if err != nil {
						return
					}
					if n == 0 || !bytes.HasSuffix(p[:n], []byte("z")) {
						continue
					}
					if _, err := c.Write(reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	tr, err := NewTransport(TransportOptions{Upstream: "gpu-a", URL: "http://" + ln.Addr().String()})
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	r := &Request{Method: "POST", Path: "/v1/chat/completions", ContentType: "application/json", Body: [][]byte{[]byte(strings.Repeat("q", 1023) + "z")}, WriteTimeout: time.Minute}
	p := make([]byte, 4096)
	b.ReportAllocs()
	b.SetBytes(2048)
	for b.Loop() {
		until := time.Now().Add(time.Minute)
		x := tr.NewExchange()
		if err := x.Send(r); err != nil {
			b.Fatal(err)
		}
		if err := x.Await(until); err != nil {
			b.Fatal(err)
		}
		for err = nil; err == nil; {
			_, err = x.Read(p, until)
		}
		x.Close()
	}
}
