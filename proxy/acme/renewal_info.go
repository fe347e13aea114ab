package acme

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// renewalInfo asks an authority when certificates should be renewed (RFC 9773): before it revokes
// many at once, say. It only ever brings a renewal forward. One goroutine uses it.
type renewalInfo struct {
	client    *http.Client
	directory string
	url       *string // nil: not asked for yet; empty: the authority gives no such advice

	advice map[string]advice // by certificate
}

// advice is that for one certificate.
type advice struct {
	due  time.Time // zero: there is none
	next time.Time // when to ask again
}

// How often advice is asked for, within what the authority says.
const (
	adviceUsual = 6 * time.Hour
	adviceLeast = time.Hour
	adviceMost  = 24 * time.Hour
	adviceTime  = 10 * time.Second
)

// advance returns when a certificate is to be renewed or its advice to be asked for again: due, or
// earlier.
func (r *renewalInfo) advance(ctx context.Context, leaf *x509.Certificate, due, now time.Time) time.Time {
	id := certificateID(leaf)
	if id == "" {
		return due
	}
	a, known := r.advice[id]
	if !known || !now.Before(a.next) {
		a = r.ask(ctx, id, leaf, a, now)
		if r.advice == nil || len(r.advice) > 1000 { // those of certificates that were renewed
			r.advice = map[string]advice{}
		}
		r.advice[id] = a
	}
	if !a.due.IsZero() && a.due.Before(due) {
		due = a.due
	}
	if a.next.Before(due) {
		due = a.next
	}
	return due
}

// ask asks for the advice for a certificate. What was said before stays when there is no answer.
func (r *renewalInfo) ask(
	ctx context.Context, id string, leaf *x509.Certificate, before advice, now time.Time,
) advice {
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	out := advice{due: before.due, next: now.Add(adviceUsual)}
	if r.url == nil {
		var directory struct {
			RenewalInfo string `json:"renewalInfo"`
		}
		if _, err := r.get(ctx, r.directory, &directory); err != nil {
			return out
		}
		r.url = &directory.RenewalInfo
	}
	if *r.url == "" {
		out.next = now.Add(adviceMost)
		return out
	}
	var info struct {
		SuggestedWindow struct {
			Start time.Time `json:"start"`
			End   time.Time `json:"end"`
		} `json:"suggestedWindow"`
	}
	header, err := r.get(ctx, strings.TrimSuffix(*r.url, "/")+"/"+id, &info)
	if err != nil {
		return out
	}
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil {
		out.next = now.Add(min(max(time.Duration(seconds)*time.Second, adviceLeast), adviceMost))
	}
	w := info.SuggestedWindow
	if w.Start.IsZero() || w.End.Before(w.Start) {
		return out
	}
	part := time.Duration(leaf.SerialNumber.Uint64() % 1000) // the same at each look
	out.due = w.Start.Add(w.End.Sub(w.Start) / 1000 * part)
	return out
}

var errNoAdvice = errors.New("the authority does not answer")

// get reads a small JSON document.
func (r *renewalInfo) get(ctx context.Context, url string, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, errNoAdvice
	}
	return res.Header, json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(into)
}

// certificateID names a certificate as RFC 9773 does; "" for one that it has no name for.
func certificateID(leaf *x509.Certificate) string {
	if len(leaf.AuthorityKeyId) == 0 {
		return ""
	}
	serial := leaf.SerialNumber.Bytes()
	if len(serial) > 0 && serial[0]&0x80 != 0 { // as DER writes a positive number
		serial = append([]byte{0}, serial...)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode(leaf.AuthorityKeyId) + "." + encode(serial)
}
