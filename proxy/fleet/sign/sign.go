// Package sign signs the entries that the edges of a fleet publish in their store. An attacker who
// can write to the store but does not know the fleet's secret can neither impersonate an edge nor
// drain an engine.
//
// A signature is an HMAC-SHA256 over the prefix of the fleet, the kind of the text, its name, and
// the text itself. The text contains the signing edge and the time of expiry. A text is therefore
// not valid in another fleet, under another name, or after its expiry. The first secret signs and
// all secrets verify, so an operator can replace the secrets at one edge after another.
//
// Edges with an older version, and edges that have no secret yet, write unsigned texts. Unsigned
// texts are valid until a day after the first secret of the fleet appeared. A text with a wrong
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

// Grace is how long unsigned texts stay valid after the first secret of the fleet appeared.
const Grace = 24 * time.Hour

// The kinds of signed texts.
const (
	Member = "member" // the entry of a member; the name is the edge's id
	Mode   = "mode"   // a mode that an operator has set; the name is the name of the fact
	Since  = "since"  // when the first secret of the fleet appeared
)

// Signer signs and verifies texts. Any goroutine may call its methods. A nil Signer does not sign,
// and accepts every text.
type Signer struct {
	prefix  string
	secrets []string
	since   atomic.Int64 // Unix seconds; 0: unknown
}

// New returns the Signer of the fleet with the given prefix in the store, or nil if secrets is
// empty.
func New(prefix string, secrets []string) *Signer {
	if len(secrets) == 0 {
		return nil
	}
	return &Signer{prefix: prefix, secrets: secrets}
}

// A signature is written as the last member of a JSON object.
const (
	before = `,"mac":"`
	after  = `"}`
	length = len(before) + 2*sha256.Size + len(after)
)

// Sign marshals a value and adds a signature. The value must marshal to a JSON object that is not
// empty.
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

// Signed reports whether one of the secrets has signed a text with this kind and name.
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

// Counts reports whether a text is valid at the time now: it is signed, or unsigned texts are still
// accepted.
func (s *Signer) Counts(kind, name, text string, now time.Time) bool {
	if s == nil || s.Signed(kind, name, text) {
		return true
	}
	since := s.since.Load()
	return since > 0 && now.Before(time.Unix(since, 0).Add(Grace)) && !strings.Contains(text, `"mac"`)
}

type appeared struct {
	Since int64 `json:"since"`
}

// Appeared reads the stored record of when the first secret appeared. The earliest known time
// counts. Appeared returns a corrected record for the store, or "" if the record is correct. A
// record that an older secret has signed is signed again, because if the record became invalid,
// unsigned texts would be accepted for another day.
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
