// Package sign signs what the edges of a fleet tell each other through their store, so that one who
// can write to the store, but has no secret of the fleet, can neither pose as an edge nor drain an
// engine.
//
// A signature is HMAC-SHA256 over the store's prefix, the kind and the name of what is said, and the
// text itself, in which the edge and the time of expiry stand. So no text counts in another fleet, at
// another place or after its time. The first secret signs and all of them verify, so secrets can be
// exchanged one edge after the other.
//
// For a day after an edge of the fleet had a secret for the first time texts without a signature count
// as before: edges that have none yet, or are of an older version, send such. A text with a wrong
// signature never counts.
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

// Grace is how long texts without a signature count after the fleet's first secret appeared.
const Grace = 24 * time.Hour

// The kinds of what is said.
const (
	Member = "member" // an edge, by its id
	Mode   = "mode"   // an operator's wish for an upstream, by the upstream's name
	Since  = "since"  // when the fleet's first secret appeared
)

// Signer signs and verifies. Its methods may be called from any goroutine. A nil Signer signs nothing,
// and everything counts.
type Signer struct {
	prefix  string
	secrets []string
	since   atomic.Int64 // Unix seconds; 0: not known yet
}

// New returns the signer of a fleet whose keys in the store have a prefix; nil without secrets.
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

// Sign returns value, marshaled as a JSON object, with its signature. value must have members.
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

// Counts reports whether a text counts at a time: it is signed, or still need not be.
func (s *Signer) Counts(kind, name, text string, now time.Time) bool {
	if s == nil || s.Signed(kind, name, text) {
		return true
	}
	since := s.since.Load()
	return since > 0 && now.Before(time.Unix(since, 0).Add(Grace)) && !strings.Contains(text, `"mac"`)
}

// appeared is the text about the first secret.
type appeared struct {
	Since int64 `json:"since"` // Unix seconds
}

// Appeared takes over what the store has about the first secret's appearance, of which the earliest
// counts, and returns what it should have instead: nothing if that is right. What an older secret has
// signed is signed anew, or taking the old secret out would begin another day.
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
