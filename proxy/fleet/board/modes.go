package board

import (
	"encoding/json"
	"time"

	"penstock/upstreams"
)

// modePrefix begins the names of facts that are operators' modes.
const modePrefix = "m:"

// ModeSetting is an operator's wish for an upstream, at every edge.
type ModeSetting struct {
	Mode string `json:"mode"`
	Who  string `json:"who"`  // asked for it
	When int64  `json:"when"` // Unix seconds
}

// SetMode has every edge set the mode of an upstream; the caller has set it here. It returns at
// once: while the store is away the other edges learn of it later.
func (b *Board) SetMode(id upstreams.ID, m upstreams.Mode, who string, now time.Time) {
	value, err := json.Marshal(ModeSetting{m.String(), who, now.Unix()})
	if err != nil {
		panic("BUG: a mode cannot be written: " + err.Error())
	}
	name := modePrefix + Name(id)
	b.mu.Lock()
	b.facts[name], b.applied[name] = string(value), string(value)
	b.mu.Unlock()
	b.put(name, string(value), 0)
}

// Mode returns who has set the mode of an upstream last, and false where nobody has.
func (b *Board) Mode(id upstreams.ID) (s ModeSetting, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return s, json.Unmarshal([]byte(b.facts[modePrefix+Name(id)]), &s) == nil
}

// applyModes sets the modes that other edges have been given since. What another edge writes is
// read with care: it may be another version.
func (b *Board) applyModes() {
	type change struct {
		up   *upstreams.Upstream
		mode upstreams.Mode
	}
	var changes []change
	b.mu.Lock()
	waiting := map[string]bool{}
	for _, f := range b.pending {
		waiting[f.name] = true
	}
	for i := range b.here {
		name := modePrefix + Name(b.here[i].ID)
		value := b.facts[name]
		if value == "" || value == b.applied[name] || waiting[name] {
			continue
		}
		b.applied[name] = value
		var s ModeSetting
		if json.Unmarshal([]byte(value), &s) != nil {
			continue
		}
		if mode, err := upstreams.ParseMode(s.Mode); err == nil {
			changes = append(changes, change{b.here[i].Upstream, mode})
		}
	}
	b.mu.Unlock()
	for _, c := range changes {
		c.up.SetMode(c.mode)
	}
}
