// Package sign signs the messages that the edges of a fleet leave for each other in their store.
// Without the fleet's secret, write access to the store is not enough to pose as an edge or to
// drain an engine.
//
// A signature is HMAC-SHA256 over the store's prefix, the kind and the name of the text, and the
// text itself, which contains the edge and the time of expiry. So no text is valid in another
// fleet, under another name or after its expiry. The first secret signs and all secrets verify, so
// that secrets can be replaced at one edge after another.
//
// Edges that have no secret yet, and edges of an older version, send texts without a signature.
// Such texts stay valid for a day after the fleet's first secret appeared. A text with a wrong
// signature is never valid.
package sign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Grace is how long texts without a signature are valid after the fleet's first secret appeared.
const Grace = 24 * time.Hour

// The kinds of signed texts.
const (
	Member = "member" // an edge's entry; the name is the edge's id
	Mode   = "mode"   // an operator's mode; the name is the upstream's name
	Since  = "since"  // the time at which the fleet's first secret appeared
)

// Signer signs and verifies texts. Any goroutine may call its methods. A nil Signer signs nothing
// and accepts everything.
type Signer struct {
	prefix  string
	secrets []string
	since   atomic.Int64 // Unix seconds; 0: unknown
}

// New returns the signer of a fleet whose keys in the store start with the given prefix. It returns
// nil if there are no secrets.
func New(prefix string, secrets []string) *Signer {
	if len(secrets) == 0 {
		return nil
	}
	return &Signer{prefix: prefix, secrets: secrets}
}

// A signature is the last member of a JSON object.
const (
	before = `,"mac":"`
	after  = `"}`
	length = len(before) + 2*sha256.Size + len(after)
)

// Sign returns the value, marshaled as a JSON object, with its signature. The object must have
// members.
func (s *Signer) Sign(kind, name string, value any) string {
	object, err := json.Marshal(value)
	if err != nil {
		panic("BUG: what an edge says cannot be written: " + err.Error())
	}
	if s == nil {
		return string(object)
	}
	return s.seal(s.secrets[0], kind, name, string(object))
}

func (s *Signer) seal(secret, kind, name, object string) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "penstock fact %q %q %q %q", s.prefix, kind, name, object)
	return strings.TrimSuffix(object, "}") + before + hex.EncodeToString(h.Sum(nil)) + after
}

// Signed reports whether one of the secrets has signed a text for this kind and name.
func (s *Signer) Signed(kind, name, text string) bool {
	if s == nil || len(text) < length {
		return false
	}
	object := text[:len(text)-length] + "}"
	for _, secret := range s.secrets {
		if hmac.Equal([]byte(text), []byte(s.seal(secret, kind, name, object))) {
			return true
		}
	}
	return false
}

// Counts reports whether a text is valid at a time: it is signed, or signatures are not required
// yet.
func (s *Signer) Counts(kind, name, text string, now time.Time) bool {
	if s == nil || s.Signed(kind, name, text) {
		return true
	}
	since := s.since.Load()
	return since > 0 && now.Before(time.Unix(since, 0).Add(Grace)) && !strings.Contains(text, `"mac"`)
}

// appeared records when the fleet's first secret appeared.
type appeared struct {
	Since int64 `json:"since"` // Unix seconds
}

// Appeared reads the store's record of when the first secret appeared. The earliest time counts. It
// returns a correction for the store, or "" if the record is right. If an older secret has signed
// the record, the record is signed again. Otherwise the removal of that secret would start another
// day without required signatures.
func (s *Signer) Appeared(stored string, now time.Time) (correction string) {
	if s == nil {
		return ""
	}
	var a appeared
	known := s.since.Load()
	if s.Signed(Since, "", stored) && json.Unmarshal([]byte(stored), &a) == nil && (known == 0 || a.Since <= known) {
		s.since.Store(a.Since)
		if correction = s.Sign(Since, "", a); correction == stored {
			return ""
		}
		return correction
	}
	if known == 0 {
		known = now.Unix()
		s.since.Store(known)
	}
	return s.Sign(Since, "", appeared{known})
}
