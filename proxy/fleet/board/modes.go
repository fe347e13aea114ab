package board

import (
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/fleet/sign"
	"penstock/upstreams"
)

const modeFactPrefix = "m:"

// ModeSetting is a mode that an operator has set for an upstream. It applies at every edge.
type ModeSetting struct {
	Mode string `json:"mode"`
	Who  string `json:"who"`
	When int64  `json:"when"`           // Unix seconds
	Edge string `json:"edge,omitempty"` // id of the edge that signed the mode
	// Expires is when the mode becomes invalid unless an edge signs it again, in Unix seconds.
	Expires int64 `json:"expires,omitempty"`
}

// A mode applies until an operator sets another mode, so edges renew its signature long before the
// signature expires. Signatures expire so that an attacker cannot restore an old copy of a mode.
const (
	modeSignatureLifetime = 7 * 24 * time.Hour
	// A mode is signed again when its signature will be valid for less than this time.
	modeRenewBefore   = 6 * 24 * time.Hour
	modeCheckInterval = time.Hour
)

// PublishMode sends a mode to the other edges. The caller must set the mode at this edge
// afterwards, because otherwise the board could set the previous mode again in between. PublishMode
// does not wait for the store. While the store is unreachable, the mode stays pending.
func (b *Board) PublishMode(u *upstreams.Upstream, m upstreams.OperatorMode, who string, now time.Time) {
	name := modeFactPrefix + UpstreamKey(u.ID())
	b.mu.Lock()
	s := ModeSetting{Mode: m.String(), Who: who, When: now.Unix()}
	// A newer mode must have a later time, even if the clocks of the edges differ.
	if last, err := parseMode(b.appliedModes[name]); err == nil {
		s.When = max(s.When, last.When+1)
	}
	value := b.signMode(name, s, now)
	b.facts[name], b.appliedModes[name], b.appliedTo[name] = value, value, u
	b.mu.Unlock()
	b.publishFact(name, value, b.storedModeLifetime())
}

// storedModeLifetime returns how long the store keeps a mode after its last signature. An edge
// renews the signature only if it has the upstream. Unsigned modes are kept until they are
// replaced.
func (b *Board) storedModeLifetime() time.Duration {
	if b.o.Signer == nil {
		return 0
	}
	return modeSignatureLifetime
}

func (b *Board) signMode(name string, s ModeSetting, now time.Time) string {
	if b.o.Signer != nil {
		s.Edge, s.Expires = b.o.Edge, now.Add(modeSignatureLifetime).Unix()
	}
	return b.o.Signer.Sign(sign.KindMode, name, s)
}

func parseMode(value string) (s ModeSetting, err error) {
	if err = json.Unmarshal([]byte(value), &s); err != nil {
		return s, err
	}
	_, err = upstreams.ParseMode(s.Mode)
	return s, err
}

// isValidMode reports whether a mode is valid, which means that an edge of the fleet has signed it
// and it has not expired.
func (b *Board) isValidMode(name, value string, s *ModeSetting, now time.Time) bool {
	return b.o.Signer.IsAccepted(sign.KindMode, name, value, now) && (s.Expires == 0 || s.Expires >= now.Unix())
}

// isOlderMode reports whether a mode was set before the applied mode. The caller must hold mu.
func (b *Board) isOlderMode(name string, s *ModeSetting) bool {
	last, err := parseMode(b.appliedModes[name])
	return b.o.Signer != nil && err == nil && s.When < last.When
}

// OperatorMode returns the mode that an operator last set for an upstream. If no operator has set
// one, ok is false.
func (b *Board) OperatorMode(id upstreams.ID) (s ModeSetting, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := parseMode(b.appliedModes[modeFactPrefix+UpstreamKey(id)])
	return s, err == nil
}

// applyModes applies the modes set by operators, at this edge or at other edges, to the upstreams
// that do not have these modes yet.
func (b *Board) applyModes() {
	type change struct {
		up   *upstreams.Upstream
		mode upstreams.OperatorMode
	}
	var changes []change
	to := map[string]*upstreams.Upstream{}
	b.mu.Lock()
	waiting := map[string]bool{}
	for _, f := range b.pending {
		waiting[f.name] = true
	}
	for i := range b.localWork {
		name, up := modeFactPrefix+UpstreamKey(b.localWork[i].ID), b.localWork[i].Upstream
		adopted := !waiting[name] && b.adoptMode(name, up)
		s, err := parseMode(b.appliedModes[name])
		if err != nil { // no operator has set a mode
			continue
		}
		if to[name] = up; !adopted && b.appliedTo[name] == up {
			continue
		}
		if mode, err := upstreams.ParseMode(s.Mode); err == nil {
			changes = append(changes, change{up, mode})
		}
	}
	b.appliedTo = to
	b.mu.Unlock()
	for _, c := range changes {
		c.up.SetMode(c.mode)
	}
}

// adoptMode makes the board's mode of an upstream the applied mode, and reports whether it is new.
// It validates the mode, because it may have been written by another program or by an edge with a
// different version. The caller must hold mu.
func (b *Board) adoptMode(name string, up *upstreams.Upstream) bool {
	value := b.facts[name]
	if value == "" || value == b.appliedModes[name] || value == b.ignoredModes[name] {
		return false
	}
	s, err := parseMode(value)
	switch {
	case err != nil: // the mode was written by an edge with a different version
		b.ignoredModes[name] = value
		return false
	case !b.isValidMode(name, value, &s, b.clock()):
		b.recordInvalidMode(name, value, up)
		return false
	case b.isOlderMode(name, &s):
		// Either an edge that does not know the newer mode has sent this mode, or an attacker has
		// restored it.
		b.facts[name] = b.appliedModes[name]
		b.publishFactLocked(name, b.appliedModes[name], b.storedModeLifetime())
		return false
	}
	delete(b.ignoredModes, name)
	b.appliedModes[name] = value
	return true
}

// recordInvalidMode records and logs an invalid mode. The caller must hold mu.
func (b *Board) recordInvalidMode(name, value string, up *upstreams.Upstream) {
	b.ignoredModes[name] = value
	b.o.Log.Warn("a mode in the fleet's store is ignored: it is old, or not signed for this upstream with one of fleet.secrets",
		zap.String("upstream", up.Name()), zap.String("remedy", "give all edges the same fleet.secrets, and let nothing else write to the store"))
}

// renewModes signs modes that are unsigned or about to expire, and restores modes that were
// replaced by invalid entries. It forgets modes of upstreams that this edge does not have.
func (b *Board) renewModes(now time.Time) {
	if b.o.Signer == nil || b.version == "" || now.Sub(b.modesCheckedAt) < modeCheckInterval {
		return
	}
	b.modesCheckedAt = now
	here := map[string]bool{}
	for i := range b.localWork {
		here[modeFactPrefix+UpstreamKey(b.localWork[i].ID)] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, value := range b.appliedModes {
		if !here[name] {
			delete(b.appliedModes, name)
			continue
		}
		s, err := parseMode(value)
		replaced := b.facts[name] != value
		if err != nil || !replaced && s.Expires > now.Add(modeRenewBefore).Unix() {
			continue
		}
		value = b.signMode(name, s, now)
		b.facts[name], b.appliedModes[name] = value, value
		delete(b.ignoredModes, name)
		b.publishFactLocked(name, value, modeSignatureLifetime)
	}
}

// secretSinceFactName is the name of the fact that records when the fleet's first secret appeared.
const secretSinceFactName = "s:since"

// adoptSecretAge adopts the board's record of when the fleet's first secret appeared. It corrects a
// wrong record at most once a minute, because edges with different secrets may overwrite each
// other's correction. The caller must hold mu.
func (b *Board) adoptSecretAge(now time.Time) {
	correction := b.o.Signer.AdoptSecretSince(b.facts[secretSinceFactName], now)
	if correction != "" && now.Sub(b.lastCorrection) >= time.Minute {
		b.lastCorrection = now
		b.publishFactLocked(secretSinceFactName, correction, 0)
	}
}
