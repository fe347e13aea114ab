package fleet

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

// account.lua is the script for accounts. Its SHA identifies its version, so edges with different
// versions of the script may share a store as long as the account layout is the same.
//
//go:embed account.lua
var accountSource string

var accountScript = valkey.NewLuaScript(accountSource)

// leaseTime is how long the store keeps the amounts granted to an edge after the edge's last
// message. The slots of a killed edge must be usable again within ten seconds, and the other edges
// need one second to request these slots.
const leaseTime = 9 * time.Second

type accountMessage struct {
	edge   string
	number uint64 // 1 for the first message of a process
	birth  string
	parts  [cellCount]cellReport
}

// scriptArgs returns the arguments for the script. Message numbers start at began. If the message is
// repeated (repetition is 1), it has a higher number than the first attempt, so the store accepts
// it.
func (m *accountMessage) scriptArgs(began, repetition uint64) []string {
	out, number := make([]string, 0, 4+7*cellCount), began+2*m.number+repetition
	out = append(out, m.edge, strconv.FormatUint(number, 10), strconv.FormatInt(leaseTime.Milliseconds(), 10), m.birth)
	for i := range m.parts {
		p := &m.parts[i]
		for _, n := range [...]int64{int64(p.kind), p.limit, p.charged, p.knownCharge, p.ownDebt, p.minHeld, p.wanted} {
			out = append(out, strconv.FormatInt(n, 10))
		}
	}
	return out
}

type accountReply struct {
	birth  string
	grants [cellCount]cellGrant
	// If the store has already received a later message, the number of that message; otherwise 0.
	laterNumber uint64
	clock       time.Duration
}

var errOvertaken = errors.New("a later message was there first")

func parseAccountReply(result valkey.ValkeyResult) (r accountReply, err error) {
	list, err := result.ToArray()
	if err != nil {
		return r, err
	}
	if len(list) == 2 {
		if later, err := list[1].AsUint64(); err == nil {
			r.laterNumber = later
		}
		return r, errOvertaken
	}
	if len(list) != 2+3*cellCount {
		return r, fmt.Errorf("the store answers with %d values", len(list))
	}
	if r.birth, err = list[0].ToString(); err != nil {
		return r, err
	}
	for i := range r.grants {
		g := &r.grants[i]
		if g.held, err = list[1+3*i].AsInt64(); err != nil {
			return r, err
		}
		if g.debt, err = list[2+3*i].AsFloat64(); err != nil {
			return r, err
		}
		if g.free, err = list[3+3*i].AsFloat64(); err != nil {
			return r, err
		}
		if !isFinite(g.debt) || !isFinite(g.free) {
			return r, errors.New("the store answers with a number that is not finite")
		}
	}
	ms, err := list[1+3*cellCount].AsInt64()
	r.clock = time.Duration(ms) * time.Millisecond
	return r, err
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
