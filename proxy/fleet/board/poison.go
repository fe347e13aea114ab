package board

import (
	"strconv"
	"strings"
	"time"

	"penstock/upstreams"
)

// Poison records which request bodies have crashed which engines. *poison.BodyTracker implements
// Poison.
type Poison interface {
	// SetSeed sets the seed for hashing bodies. The seed is the same at all edges.
	SetSeed(seed string)
	// SetLostEngines replaces the facts from the fleet. lost maps the hash of a body to the engines
	// that this body has crashed.
	SetLostEngines(lost map[uint64][]*upstreams.Upstream)
}

const poisonFactPrefix = "p:"

func poisonFactName(hash uint64, id upstreams.ID) string {
	return poisonFactPrefix + strconv.FormatUint(hash, 16) + ":" + UpstreamKey(id)
}

// ReportLostEngine notifies every edge that the body with the given hash has crashed an upstream. The
// fact expires after life.
func (b *Board) ReportLostEngine(hash uint64, id upstreams.ID, life time.Duration) {
	b.publishFact(poisonFactName(hash, id), "1", life)
}

// ReportClearedBody makes every edge forget which engines the body with the given hash has crashed.
func (b *Board) ReportClearedBody(hash uint64) {
	prefix := poisonFactPrefix + strconv.FormatUint(hash, 16) + ":"
	b.mu.Lock()
	var names []string
	for name := range b.facts {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	for _, f := range b.pending {
		if strings.HasPrefix(f.name, prefix) && f.value != "" {
			names = append(names, f.name)
		}
	}
	b.mu.Unlock()
	for _, name := range names {
		b.publishFact(name, "", 0)
	}
}

func (b *Board) applyPoison(seed string, facts map[string]string) {
	b.o.Poison.SetSeed(seed)
	byName := make(map[string]*upstreams.Upstream, len(b.localWork))
	for i := range b.localWork {
		byName[UpstreamKey(b.localWork[i].ID)] = b.localWork[i].Upstream
	}
	lost := map[uint64][]*upstreams.Upstream{}
	for name := range facts {
		rest, ok := strings.CutPrefix(name, poisonFactPrefix)
		if !ok {
			continue
		}
		hex, engine, _ := strings.Cut(rest, ":")
		if hash, err := strconv.ParseUint(hex, 16, 64); err == nil && byName[engine] != nil {
			lost[hash] = append(lost[hash], byName[engine])
		}
	}
	b.o.Poison.SetLostEngines(lost)
}
