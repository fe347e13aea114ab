// Package sign signs the entries that the edges of a fleet publish in the fleet's store. Without
// the fleet's secret, an attacker who can write to the store cannot impersonate an edge or drain an
// engine.
//
// A signature is an HMAC-SHA256 over the fleet's prefix and the text's kind, name and content. The
// text contains the id of the signing edge and the expiry time. A text is therefore not valid in
// another fleet, under another name, or after it has expired. The first secret signs and every
// secret verifies, so an operator can replace the secrets one edge at a time.
//
// Edges with an older version, and edges without a secret, write unsigned texts. Unsigned texts
// remain valid for a day after the fleet's first secret has appeared. A text with a wrong signature
// is never valid.
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

// UnsignedGracePeriod is how long unsigned texts remain valid after the fleet's first secret appeared.
const UnsignedGracePeriod = 24 * time.Hour

// These are the kinds of signed texts.
const (
	KindMember = "member" // a member's entry; its name is the edge's id
	KindMode   = "mode"   // a mode set by an operator; its name is the name of the fact
	KindSince  = "since"  // when the fleet's first secret appeared
)

// Signer signs and verifies texts. Its methods may be called by multiple goroutines. A nil Signer
// signs nothing, and accepts every text.
type Signer struct {
	prefix      string
	secrets     []string
	secretSince atomic.Int64 // Unix seconds; 0 if unknown
}

// New returns the Signer for the fleet with the given prefix in the store. If secrets is empty, New
// returns nil.
func New(prefix string, secrets []string) *Signer {
	if len(secrets) == 0 {
		return nil
	}
	return &Signer{prefix: prefix, secrets: secrets}
}

// A signature is the last member of a JSON object.
const (
	macMemberPrefix = `,"mac":"`
	macMemberSuffix = `"}`
	macMemberLength = len(macMemberPrefix) + 2*sha256.Size + len(macMemberSuffix)
)

// Sign marshals a value and appends a signature. The value must marshal to a non-empty JSON object.
func (s *Signer) Sign(kind, name string, value any) string {
	object, err := json.Marshal(value)
	if err != nil {
		panic("BUG: what an edge says cannot be written: " + err.Error())
	}
	if s == nil {
		return string(object)
	}
	return s.appendMAC(s.secrets[0], kind, name, string(object))
}

func (s *Signer) appendMAC(secret, kind, name, object string) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "penstock fact %q %q %q %q", s.prefix, kind, name, object)
	return strings.TrimSuffix(object, "}") + macMemberPrefix + hex.EncodeToString(h.Sum(nil)) + macMemberSuffix
}

// IsSigned reports whether a text with this kind and name is signed with one of the secrets.
func (s *Signer) IsSigned(kind, name, text string) bool {
	if s == nil || len(text) < macMemberLength {
		return false
	}
	object := text[:len(text)-macMemberLength] + "}"
	for _, secret := range s.secrets {
		if hmac.Equal([]byte(text), []byte(s.appendMAC(secret, kind, name, object))) {
			return true
		}
	}
	return false
}

// IsAccepted reports whether a text is valid at the time now. Signed texts are valid. Unsigned
// texts are valid until UnsignedGracePeriod after the first secret appeared.
func (s *Signer) IsAccepted(kind, name, text string, now time.Time) bool {
	if s == nil || s.IsSigned(kind, name, text) {
		return true
	}
	since := s.secretSince.Load()
	return since > 0 && now.Before(time.Unix(since, 0).Add(UnsignedGracePeriod)) && !strings.Contains(text, `"mac"`)
}

type secretSinceRecord struct {
	Since int64 `json:"since"` // in Unix seconds
}

// AdoptSecretSince reads the stored record of when the fleet's first secret appeared. The earliest
// known time counts. AdoptSecretSince returns a corrected record for the store, or "" if the record is
// correct. If the record was signed with an older secret, the correction is signed with the first
// secret. Otherwise, the record would become invalid when the older secret is removed, and unsigned
// texts would be accepted for another day.
func (s *Signer) AdoptSecretSince(stored string, now time.Time) (correction string) {
	if s == nil {
		return ""
	}
	var a secretSinceRecord
	known := s.secretSince.Load()
	if s.IsSigned(KindSince, "", stored) && json.Unmarshal([]byte(stored), &a) == nil && (known == 0 || a.Since <= known) {
		s.secretSince.Store(a.Since)
		if correction = s.Sign(KindSince, "", a); correction == stored {
			return ""
		}
		return correction
	}
	if known == 0 {
		known = now.Unix()
		s.secretSince.Store(known)
	}
	return s.Sign(KindSince, "", secretSinceRecord{known})
}
