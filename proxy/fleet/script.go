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
var source string

var script = valkey.NewLuaScript(source)

// lease is how long the store keeps the amounts granted to an edge after the edge's last message.
// The slots of a killed edge must be usable again within ten seconds. The other edges need the
// tenth second to request these slots.
const lease = 9 * time.Second

type message struct {
	edge   string
	number uint64 // 1 for the first message of a process
	born   string
	parts  [cells]part
}

// args returns the arguments for the script. Message numbers count up from began. If the message is
// repeated (repetition is 1), it has a higher number than the first attempt, so the store accepts
// it.
func (m *message) args(began, repetition uint64) []string {
	out, number := make([]string, 0, 4+7*cells), began+2*m.number+repetition
	out = append(out, m.edge, strconv.FormatUint(number, 10), strconv.FormatInt(lease.Milliseconds(), 10), m.born)
	for i := range m.parts {
		p := &m.parts[i]
		for _, n := range [...]int64{int64(p.kind), p.limit, p.charged, p.base, p.own, p.least, p.want} {
			out = append(out, strconv.FormatInt(n, 10))
		}
	}
	return out
}

type reply struct {
	birth  string
	grants [cells]grant
	// If the store has already received a later message, the number of that message; otherwise 0.
	later uint64
	clock time.Duration
}

var errOvertaken = errors.New("a later message was there first")

func parseReply(result valkey.ValkeyResult) (r reply, err error) {
	list, err := result.ToArray()
	if err != nil {
		return r, err
	}
	if len(list) == 2 {
		if later, err := list[1].AsUint64(); err == nil {
			r.later = later
		}
		return r, errOvertaken
	}
	if len(list) != 2+3*cells {
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
		if !finite(g.debt) || !finite(g.free) {
			return r, errors.New("the store answers with a number that is not finite")
		}
	}
	ms, err := list[1+3*cells].AsInt64()
	r.clock = time.Duration(ms) * time.Millisecond
	return r, err
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
