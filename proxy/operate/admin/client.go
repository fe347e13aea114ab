package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config/unixsocket"
	"penstock/proxy/front/plaintext"
)

// Readiness is the response to /-/ready.
type Readiness struct {
	Status string `json:"status"` // ready, starting, draining or failing
	Reason string `json:"reason,omitempty"`
}

// readyTimeout is how long CheckReady waits for the answer. It is short, because the answer costs
// the edge no work.
const readyTimeout = 2 * time.Second

// CheckReady asks an edge whether it accepts new requests. If the edge does not, the error contains
// the reason.
func CheckReady(edge Edge) error {
	edge.Token = "" // /-/ready requires no token
	_, err := edge.get("/-/ready", readyTimeout)
	return err
}

// ChangeMode sets the mode of an upstream or a group. It writes the changes to out, as JSON if
// asJSON is true, and returns the upstreams' names.
func ChangeMode(edge Edge, q ModeRequest, asJSON bool, out io.Writer) (names []string, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	answer, note, err := edge.sendRequest(fasthttp.MethodPost, "/-/mode", body, readyTimeout)
	if err != nil {
		return nil, err
	}
	var done ModeResult
	if err := json.Unmarshal(answer, &done); err != nil {
		return nil, fmt.Errorf("%s did not answer like a Penstock admin listener", edge.Admin)
	}
	for _, u := range done.Upstreams {
		names = append(names, u.Name)
	}
	if asJSON {
		return names, printJSONLine(out, answer)
	}
	for _, u := range done.Upstreams {
		if u.Was == q.Mode {
			fmt.Fprintf(out, "%s: %s, as it was\n", plaintext.CleanLine(u.Name), q.Mode)
		} else {
			fmt.Fprintf(out, "%s: %s (was %s)\n", plaintext.CleanLine(u.Name), q.Mode, plaintext.CleanLine(u.Was))
		}
	}
	printWarning(note, out)
	return names, nil
}

// printJSONLine writes a JSON response of an edge as one line without control characters.
func printJSONLine(out io.Writer, body []byte) error {
	_, err := out.Write(append(plaintext.EscapeJSON(bytes.TrimSpace(body)), '\n'))
	return err
}

// fetchPageTimeout is long because an edge with many calls needs time to list its goroutines.
const fetchPageTimeout = 10 * time.Second

// FetchPage returns the page at the given path of an edge's admin listener.
func FetchPage(edge Edge, path string) ([]byte, error) {
	return edge.get(path, fetchPageTimeout)
}

func notReadyError(body []byte) error {
	var answer Readiness
	if json.Unmarshal(body, &answer) == nil && answer.Reason != "" {
		return fmt.Errorf("the edge takes no new requests: %s", answer.Reason)
	}
	return errors.New("the edge takes no new requests: it is draining")
}

func (e Edge) get(path string, timeout time.Duration) (body []byte, err error) {
	body, _, err = e.sendRequest(fasthttp.MethodGet, path, nil, timeout)
	return body, err
}

// sendRequest sends one request to an edge's admin listener, and returns the body of a 200 or 422.
// If more than one process listens on the port, note names the process that responded. The error
// tells the operator what to correct.
func (e Edge) sendRequest(method, path string, send []byte, timeout time.Duration) (body []byte, note string, err error) {
	edge, token := e.Admin, e.Token
	network, base := "tcp", edge
	switch {
	case unixsocket.IsAddress(edge):
		network, base = "unix", "http://localhost"
	case !strings.Contains(edge, "://"):
		edge = "http://" + edge
		base = edge
	}
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(strings.TrimRight(base, "/") + path)
	req.Header.SetMethod(method)
	req.Header.Set("Connection", "close")
	if send != nil {
		req.Header.SetContentType("application/yaml")
		req.SetBodyRaw(send)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	secure := string(req.URI().Scheme()) == "https"
	trusted, err := e.tlsConfig(secure)
	if err != nil {
		return nil, "", err
	}
	client := fasthttp.HostClient{ // a fasthttp.Client or its dialer would leave goroutines behind
		Addr: fasthttp.AddMissingPort(string(req.URI().Host()), secure), IsTLS: secure, TLSConfig: trusted,
		Dial: func(addr string) (net.Conn, error) {
			if network == "unix" {
				file, _, err := unixsocket.ParseListen(edge)
				if err != nil {
					return nil, err
				}
				addr = file
			}
			return net.DialTimeout(network, addr, timeout)
		},
		RetryIfErr: func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
	}
	if err := client.DoTimeout(req, res, timeout); err != nil {
		return nil, "", fmt.Errorf("ask the edge at %s: %w; %s", edge, err, certificateRemedy(err))
	}
	switch res.StatusCode() {
	case fasthttp.StatusOK, fasthttp.StatusCreated, fasthttp.StatusUnprocessableEntity:
		return append(body, res.Body()...), sharedPortWarning(&res.Header), nil
	case fasthttp.StatusServiceUnavailable:
		if text := errorText(res.Body()); text != "" {
			return nil, "", fmt.Errorf("the edge at %s refuses: %s", edge, text)
		}
		return nil, "", notReadyError(res.Body())
	case fasthttp.StatusUnauthorized:
		return nil, "", errors.New("the admin token (admin.token) is missing or wrong: pass it with --token or PENSTOCK_ADMIN_TOKEN")
	}
	if res.StatusCode() == fasthttp.StatusNotFound {
		if err := wrongAddressError(edge, req, res); err != nil {
			return nil, "", err
		}
	}
	if text := errorText(res.Body()); text != "" {
		return nil, "", fmt.Errorf("the edge at %s refuses: %s", edge, text)
	}
	return nil, "", fmt.Errorf("%s answers %d: that is not the admin listener of a penstock", edge, res.StatusCode())
}

// wrongAddressError returns the error for an address without admin pages, either because the
// address belongs to the public API or because it contains a path.
func wrongAddressError(edge string, req *fasthttp.Request, res *fasthttp.Response) error {
	text := errorText(res.Body())
	if strings.HasPrefix(text, notFoundText) && !strings.Contains(text, adminPagesText) {
		return fmt.Errorf("%s is the address of an edge's API: --admin (or PENSTOCK_ADMIN) is that of its admin listener, which is admin.listen of its configuration, 127.0.0.1:9090 if it has none", edge)
	}
	if at, err := url.Parse(edge); err == nil && strings.Trim(at.Path, "/") != "" {
		return fmt.Errorf("%s is not there: --admin (or PENSTOCK_ADMIN) is the address alone, %s://%s", req.URI().FullURI(), at.Scheme, at.Host)
	}
	return nil
}

func errorText(body []byte) string {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	return plaintext.CleanLine(answer.Error.Message)
}
