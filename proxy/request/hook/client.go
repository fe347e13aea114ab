package hook

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"penstock/config"
	"penstock/config/unixsocket"
	"penstock/upstreams"
)

// Client asks hooks about calls. A Client may be used by multiple goroutines.
type Client struct {
	httpClient *http.Client
	sockets    *http.Client // for hooks that listen on Unix sockets
	metrics    *metrics.Set
	recent     RecentFailures[Failure]
}

const (
	// maxConns is the maximum number of connections to one host. If all connections are in use, a
	// question waits, and the wait counts against the question's timeout.
	maxConns     = 256
	maxIdleConns = 64
	idleTimeout  = 30 * time.Second

	maxHead = 64 << 10
	// maxWrapperBytes is how many bytes an answer may contain in addition to a body.
	maxWrapperBytes = 4 << 10
	// initialBufferSize is the initial buffer size for an answer. A buffer of this size does not
	// count against the memory limit.
	initialBufferSize = 4 << 10
)

// DialFunc opens a connection to a hook.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// NewClient returns a Client that registers its metrics in set. It opens connections with dial, or
// with a net.Dialer if dial is nil.
func NewClient(set *metrics.Set, dial DialFunc) *Client {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: idleTimeout}).DialContext
	}
	return &Client{metrics: set, httpClient: newHTTPClient(dial), sockets: newHTTPClient(
		func(ctx context.Context, _, host string) (net.Conn, error) {
			file, err := decodeSocketPath(host)
			if err != nil {
				return nil, err
			}
			return dial(ctx, "unix", file)
		},
	)}
}

func newHTTPClient(dial DialFunc) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         dial,
			MaxConnsPerHost:     maxConns,
			MaxIdleConnsPerHost: maxIdleConns,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true, MaxResponseHeaderBytes: maxHead,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
			TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{}, // disables HTTP/2
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// clientFor returns the client and the URL for a hook. The host in a Unix socket's URL is the
// hex-encoded path of the socket, because connections are pooled by host.
func (c *Client) clientFor(before string) (client *http.Client, url string) {
	if !unixsocket.IsAddress(before) {
		return c.httpClient, before
	}
	file, base, _ := unixsocket.ParseURL(before) // package config has validated the URL
	return c.sockets, "http://" + hex.EncodeToString([]byte(file)) + cmp.Or(base, "/")
}

// decodeSocketPath returns the path of the Unix socket encoded in a host.
func decodeSocketPath(address string) (file string, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	b, err := hex.DecodeString(host)
	return string(b), err
}

// RecentFailures returns the hooks that failed in the last minute, sorted by name.
func (c *Client) RecentFailures(now time.Time) []FailureCounts[Failure] {
	return c.recent.FailedHooks(now)
}

// Close closes the idle connections.
func (c *Client) Close() {
	c.httpClient.CloseIdleConnections()
	c.sockets.CloseIdleConnections()
}

// Failure is the error for a hook that gave no valid answer.
type Failure struct {
	Cause  upstreams.Cause
	Detail AnswerMistake // set if Cause is CauseHookAnswer
}

// Error implements error. The text contains no part of the question or the answer.
func (f *Failure) Error() string {
	if f.Detail == "" {
		return "the hook failed: " + string(f.Cause)
	}
	return "the hook failed: " + string(f.Cause) + ", " + f.Detail.Description()
}

// These are the errors of Ask that are not the hook's fault.
var (
	ErrCallEnded = errors.New("the call has ended")
	ErrNoMemory  = errors.New("no memory for the answer")
)

// AnswerMemory limits the memory used by answers.
type AnswerMemory interface {
	Reserve(n int64) bool
	ReleaseGarbage(n int64)
}

// Call describes the call about which a hook is asked.
type Call struct {
	Canceled <-chan struct{} // channel that is closed when the call is canceled
	Deadline time.Time       // deadline of the call; zero if there is none
	MaxBody  int64
	Memory   AnswerMemory
}

// Ask asks a hook and calls use with the decision. The body of the decision is valid until use
// returns. Ask returns the error of use, a *Failure if the hook failed, ErrCallEnded, or
// ErrNoMemory.
func (c *Client) Ask(h *config.Hook, q *Question, of *Call, use func(*Decision) error) error {
	begun := time.Now()
	deadline := begun.Add(h.Timeout.D())
	if !of.Deadline.IsZero() && of.Deadline.Before(deadline) {
		deadline = of.Deadline
	}
	ctx, cancel := context.WithDeadline(callContext{of.Canceled}, deadline)
	defer cancel()
	a := answerReader{memory: of.Memory, maxBytes: of.MaxBody + maxWrapperBytes}
	defer a.release()
	sent := &questionBody{pieces: q.encode(h.Name)}
	defer sent.detachReaders()
	err := c.postQuestion(ctx, h, sent, &a)
	c.metrics.GetOrCreateFloatCounter(`penstock_hook_seconds_total{hook="` + h.Name + `"}`).Add(time.Since(begun).Seconds())
	var d Decision
	if err == nil {
		var wrong AnswerMistake
		if d, wrong = ParseDecision(a.bytes); wrong != "" {
			err = InvalidAnswer(wrong)
		}
	}
	if err != nil {
		err = contextCause(ctx, err)
		c.countError(h, err)
		return err
	}
	if err = use(&d); errors.As(err, new(*Failure)) {
		c.countError(h, err)
		return err
	}
	c.countResult(h, d.Action.String())
	c.recent.CountQuestion(h.Name, nil, time.Now())
	return err
}

// maxTries is the maximum number of times that a question is sent. It is sent again only after a
// reused connection failed, because the hook may have closed that connection while it was idle.
const maxTries = 3

func (c *Client) postQuestion(ctx context.Context, h *config.Hook, q *questionBody, to *answerReader) error {
	var reply *http.Response
	client, url := c.clientFor(h.Before)
	for try := 1; ; try++ {
		reused := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(on httptrace.GotConnInfo) { reused = on.Reused },
		})
		r, err := http.NewRequestWithContext(traced, http.MethodPost, url, q.newReader())
		if err != nil {
			return &Failure{Cause: upstreams.CauseHookUnreachable}
		}
		if client == c.sockets {
			r.Host = "localhost"
		}
		r.ContentLength = q.size()
		r.GetBody = func() (io.ReadCloser, error) { return q.newReader(), nil }
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json")
		r.Header.Set("User-Agent", "penstock")
		if h.Token != "" {
			r.Header.Set("Authorization", "Bearer "+h.Token.Value())
		}
		if reply, err = client.Do(r); err == nil {
			break
		}
		if !reused || try == maxTries || ctx.Err() != nil {
			return &Failure{Cause: upstreams.CauseHookUnreachable}
		}
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return &Failure{Cause: upstreams.CauseHookStatus}
	}
	return to.read(reply.Body, reply.ContentLength)
}

// contextCause returns ErrCallEnded or a timeout if err occurred because ctx was done. Otherwise,
// it returns err.
func contextCause(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ErrCallEnded
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Failure{Cause: upstreams.CauseHookTimeout}
	}
	return err
}

func (c *Client) countError(h *config.Hook, err error) {
	var f *Failure
	if errors.As(err, &f) {
		c.recent.CountQuestion(h.Name, f, time.Now())
	}
	switch {
	case errors.Is(err, ErrCallEnded):
	case f != nil && f.Cause == upstreams.CauseHookTimeout:
		c.countResult(h, "timeout")
	default:
		c.countResult(h, "error")
	}
}

func (c *Client) countResult(h *config.Hook, result string) {
	c.metrics.GetOrCreateCounter(`penstock_hook_decisions_total{hook="` + h.Name + `",result="` + result + `"}`).Inc()
}

type answerReader struct {
	memory   AnswerMemory
	maxBytes int64
	reserved int64
	bytes    []byte
}

// read reads the hook's answer. If announced is negative, the length is unknown.
func (a *answerReader) read(from io.Reader, announced int64) error {
	if announced > a.maxBytes {
		return InvalidAnswer(MistakeTooLong)
	}
	a.bytes = make([]byte, 0, initialBufferSize)
	for {
		if len(a.bytes) == cap(a.bytes) {
			if err := a.grow(); err != nil {
				return err
			}
		}
		n, err := from.Read(a.bytes[len(a.bytes):cap(a.bytes)])
		a.bytes = a.bytes[:len(a.bytes)+n]
		switch {
		case int64(len(a.bytes)) > a.maxBytes:
			return InvalidAnswer(MistakeTooLong)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return InvalidAnswer(MistakeBreaksOff)
		}
	}
}

func (a *answerReader) grow() error {
	n := int64(2 * cap(a.bytes))
	if !a.memory.Reserve(n) {
		return ErrNoMemory
	}
	a.bytes = append(make([]byte, 0, n), a.bytes...)
	a.memory.ReleaseGarbage(a.reserved)
	a.reserved = n
	return nil
}

func (a *answerReader) release() {
	a.memory.ReleaseGarbage(a.reserved)
	a.bytes, a.reserved = nil, 0
}

type callContext struct{ done <-chan struct{} }

func (callContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

func (l callContext) Done() <-chan struct{} { return l.done }

func (callContext) Value(any) any { return nil }

func (l callContext) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}
