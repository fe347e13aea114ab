package observe

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"penstock/upstreams/http1/httptoken"
)

// otlpClient sends batches of spans by OTLP/HTTP, as binary protobuf. It stands where the client
// of the OpenTelemetry project would: that one links gRPC and html/template into the program, and
// calls neither.
type otlpClient struct {
	url      string
	header   http.Header
	compress bool
	http     *http.Client
}

// newOTLPClient reads what the standard variables say of headers, compression, timeout and
// certificates.
func newOTLPClient(u *url.URL) (*otlpClient, error) {
	config, err := otlpTLS()
	if err != nil {
		return nil, err
	}
	if config != nil && u.Scheme != "https" {
		return nil, errors.New("certificates of OTEL_EXPORTER_OTLP_* want an https URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if config != nil {
		transport.TLSClientConfig = config
	}
	c := &otlpClient{
		url: u.String(), header: otlpHeaders(otlpVariable("HEADERS")),
		compress: otlpVariable("COMPRESSION") == "gzip",
		http: &http.Client{
			Transport: transport, Timeout: exportPatience,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // the headers' secrets are for the configured host alone
			},
		},
	}
	if ms, err := strconv.Atoi(otlpVariable("TIMEOUT")); err == nil && ms > 0 {
		c.http.Timeout = time.Duration(ms) * time.Millisecond
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	if c.compress {
		c.header.Set("Content-Encoding", "gzip")
	}
	return c, nil
}

// otlpVariable is a standard variable of the exporter. The one for traces wins over the one for
// all signals.
func otlpVariable(name string) string {
	if v := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); v != "" {
		return v
	}
	return strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + name))
}

// otlpHeaders reads name=value pairs with commas between them, the values in percent encoding.
func otlpHeaders(pairs string) http.Header {
	h := http.Header{"User-Agent": {"OTel OTLP Exporter Go/" + otlptrace.Version()}}
	for pair := range strings.SplitSeq(pairs, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		decoded, err := url.PathUnescape(value)
		if found && err == nil && httptoken.IsToken(name) {
			h.Set(name, strings.TrimSpace(decoded))
		}
	}
	return h
}

// otlpTLS is what the variables say of certificates, or nil where they say nothing.
func otlpTLS() (*tls.Config, error) {
	var c tls.Config
	if path := otlpVariable("CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", path)
		}
	}
	if path, key := otlpVariable("CLIENT_CERTIFICATE"), otlpVariable("CLIENT_KEY"); path != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(path, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if c.RootCAs == nil && c.Certificates == nil {
		return nil, nil
	}
	return &c, nil
}

// Start implements otlptrace.Client. Nothing is dialled before the first batch.
func (*otlpClient) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *otlpClient) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// Pauses between the sendings of one batch.
const (
	exportPause    = 500 * time.Millisecond
	exportMaxPause = 2 * time.Second
)

// UploadTraces implements otlptrace.Client. It sends a batch again, until ctx ends, where the
// endpoint says that this may help.
func (c *otlpClient) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans}) // the bytes of an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	if c.compress {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // a buffer takes everything
		_ = z.Close()
		body = b.Bytes()
	}
	for pause := exportPause; ; pause = min(pause*3/2, exportMaxPause) {
		again, after, err := c.send(ctx, body)
		if err == nil || !again {
			return err
		}
		after = max(after, pause/2+rand.N(pause))
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) < after {
			return err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return err
		}
	}
}

// send sends a batch once. again is whether a failure may pass, after is how long the endpoint
// wants to be left alone.
func (c *otlpClient) send(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	r.Header = c.header.Clone()
	resp, err := c.http.Do(r)
	if err != nil {
		var failed *url.Error
		return errors.As(err, &failed) && failed.Temporary(), 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case err != nil:
		return false, 0, err
	case resp.StatusCode/100 == 2:
		if resp.Header.Get("Content-Type") == "application/x-protobuf" && rejects(answer) {
			return false, 0, errors.New("the endpoint rejected spans")
		}
		return false, 0, nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, retryAfter(resp.Header.Get("Retry-After")), fmt.Errorf("the endpoint answered %d %s",
		resp.StatusCode, http.StatusText(resp.StatusCode)) // the words of its own may be anything
}

// retryAfter reads a header that holds seconds or a date.
func retryAfter(v string) time.Duration {
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return time.Until(at)
	}
	return 0
}

// rejects reports whether an answer, an ExportTraceServiceResponse, tells of spans that the
// endpoint did not take, or warns: its field 1 is a partial success with the number in field 1 and
// a text in field 2.
func rejects(answer []byte) bool {
	return protoField(answer, func(number protowire.Number, partial []byte) bool {
		return number == 1 && protoField(partial, func(number protowire.Number, value []byte) bool {
			count, _ := protowire.ConsumeVarint(value)
			return number == 1 && count != 0 || number == 2 && len(value) > 0
		})
	})
}

// protoField reports whether a field of a message is as is says. A value with a length is shown
// without it.
func protoField(message []byte, is func(protowire.Number, []byte) bool) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return false
		}
		value := message[:n]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if is(number, value) {
			return true
		}
		message = message[n:]
	}
	return false
}

// endpointHealth tells the log when the endpoint stops taking spans and when it takes them again;
// of one that goes to and fro it tells once a minute. It belongs to the goroutine that sends.
type endpointHealth struct {
	log     *zap.Logger
	failing bool
	lost    int       // spans, since the endpoint was told to fail
	told    time.Time // when it was last told to fail
}

// retellAfter is how long an endpoint that fails again is not told.
const retellAfter = time.Minute

// tell takes how the sending of a batch ended, and how many spans were lost.
func (h *endpointHealth) tell(err error, lost int) {
	switch {
	case err != nil && !h.failing:
		if !h.told.IsZero() && time.Since(h.told) < retellAfter {
			return
		}
		h.failing, h.told, h.lost = true, time.Now(), lost
		h.log.Warn("the trace endpoint does not take spans: they are dropped", zap.Error(withoutURL(err)))
	case err != nil:
		h.lost += lost
	case h.failing:
		h.failing = false
		h.log.Info("the trace endpoint takes spans again", zap.Int("lost", h.lost))
	}
}

// withoutURL is an error without the endpoint's URL, whose query may hold a credential.
func withoutURL(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
