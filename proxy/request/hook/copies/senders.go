package copies

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"penstock/config"
)

func newSender(h *config.Hook) sinkSender {
	switch to := h.Sink(); {
	case to.URL != "":
		return newURLSender(to.URL, h.Token.Value())
	case to.Socket != "":
		return &socketSender{path: to.Socket}
	default:
		return fileSender(to.File)
	}
}

type urlSender struct {
	url, token string
	http       *http.Client
}

const (
	idleTimeout = 30 * time.Second
	// maxResponseBytes is the maximum number of bytes read from a sink's response. Their content is
	// ignored.
	maxResponseBytes = 64 << 10
)

func newURLSender(url, token string) *urlSender {
	return &urlSender{url: url, token: token, http: &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{KeepAlive: idleTimeout}).DialContext,
			IdleConnTimeout:        idleTimeout,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxResponseBytes,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // disables HTTP/2
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (u *urlSender) send(ctx context.Context, lines []byte) (result string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(lines))
	if err != nil {
		return lossReasonUnreachable
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("User-Agent", "penstock")
	if u.token != "" {
		r.Header.Set("Authorization", "Bearer "+u.token)
	}
	reply, err := u.http.Do(r)
	if err != nil {
		return lossReasonUnreachable
	}
	defer reply.Body.Close()
	// The response is read so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, reply.Body, maxResponseBytes)
	if reply.StatusCode/100 != 2 {
		return lossReasonStatus
	}
	return resultDelivered
}

func (u *urlSender) closeConns() { u.http.CloseIdleConnections() }

// fileSender appends lines to a file. It opens the file for each batch, because the file may have
// been rotated.
type fileSender string

func (path fileSender) send(_ context.Context, lines []byte) (result string) {
	if err := path.appendLines(lines); err != nil {
		return lossReasonWrite
	}
	return resultDelivered
}

var errNotRegularFile = errors.New("not a regular file")

func (path fileSender) appendLines(lines []byte) (err error) {
	f, err := os.OpenFile(string(path), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if bad := f.Close(); err == nil {
			err = bad
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errNotRegularFile
	}
	if endsMidLine(f, info.Size()) {
		if _, err := f.WriteString("\n"); err != nil {
			return err
		}
	}
	_, err = f.Write(lines)
	return err
}

// endsMidLine reports whether a file ends with an incomplete line. Such a line results from an
// earlier incomplete write.
func endsMidLine(f *os.File, size int64) bool {
	var last [1]byte
	if size == 0 {
		return false
	}
	_, err := f.ReadAt(last[:], size-1)
	return err == nil && last[0] != '\n'
}

func (fileSender) closeConns() {}

type socketSender struct {
	path string
	conn net.Conn
}

func (s *socketSender) send(ctx context.Context, lines []byte) (result string) {
	if s.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", s.path)
		if err != nil {
			return lossReasonUnreachable
		}
		s.conn = conn
	}
	until, _ := ctx.Deadline()
	_ = s.conn.SetWriteDeadline(until)
	if _, err := s.conn.Write(lines); err != nil {
		s.closeConns() // the sink may have received part of a line, so the connection cannot be reused
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return lossReasonTimeout
		}
		return lossReasonUnreachable
	}
	return resultDelivered
}

func (s *socketSender) closeConns() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.conn = nil
}
