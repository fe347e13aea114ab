package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// deliverer delivers lines to a sink. If deliver returns an error, the sink may or may not have
// received the lines.
type deliverer interface {
	deliver(lines []byte, within time.Duration) error
}

const deliveryTimeout = 5 * time.Second

func newDeliverer(s *Sink) deliverer {
	if s.File != "" {
		return fileDeliverer(s.File)
	}
	to, err := url.Parse(s.URL)
	if err != nil {
		panic("BUG: the configuration takes no such URL")
	}
	secure := to.Scheme == "https"
	return &urlDeliverer{sink: s, client: fasthttp.HostClient{
		Addr: fasthttp.AddMissingPort(to.Host, secure), IsTLS: secure,
		Name: "penstock", MaxResponseBodySize: 64 << 10, MaxIdemponentCallAttempts: 1, DialTimeout: dialSink,
	}}
}

func dialSink(address string, within time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", address, min(within, deliveryTimeout))
}

// fileDeliverer opens its file for each delivery, because an operator may move the file away.
type fileDeliverer string

func (path fileDeliverer) deliver(lines []byte, _ time.Duration) (err error) {
	f, err := os.OpenFile(string(path), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if bad := f.Close(); err == nil {
			err = bad
		}
	}()
	var last [1]byte
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		// An earlier write may have failed and left an incomplete line.
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			lines = append([]byte("\n"), lines...)
		}
	}
	if _, err := f.Write(lines); err != nil {
		return err
	}
	return f.Sync()
}

type urlDeliverer struct {
	sink   *Sink
	client fasthttp.HostClient
}

func (u *urlDeliverer) deliver(lines []byte, within time.Duration) error {
	request, answer := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	request.SetRequestURI(u.sink.URL)
	request.Header.SetMethod(fasthttp.MethodPost)
	request.Header.SetContentType("application/x-ndjson")
	if u.sink.Token != "" {
		request.Header.Set("Authorization", "Bearer "+u.sink.Token)
	}
	sum := sha256.Sum256(lines)
	request.Header.Set("Idempotency-Key", hex.EncodeToString(sum[:16]))
	request.SetBodyRaw(lines)
	request.SetConnectionClose() // the next delivery may be hours away
	err := u.client.DoTimeout(request, answer, within)
	if err != nil {
		return err // the HTTP client may still be using the request and the response
	}
	status := answer.StatusCode()
	fasthttp.ReleaseRequest(request)
	fasthttp.ReleaseResponse(answer)
	if status/100 != 2 {
		return fmt.Errorf("the sink answers with %d", status)
	}
	return nil
}
