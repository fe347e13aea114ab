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

// The script of an account, which runs in the store. The script's SHA is its version: edges with
// two versions may share a store as long as the account's layout is the same.
//
//go:embed account.lua
var source string

var script = valkey.NewLuaScript(source)

// lease is how long after an edge's last message the store keeps the amounts that the edge holds. A
// killed edge's slots must be usable again within ten seconds. The last second leaves other edges
// time to ask.
const lease = 9 * time.Second

// message is one message to an account.
type message struct {
	edge   string
	number uint64 // starts from 1 in each process
	born   string
	parts  [cells]part
}

// args returns the script's arguments. The edge's messages are numbered from began. A repeated
// message (repetition is 1) has its own number, which the store accepts after the first message's
// number.
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

// reply is an answer from the store.
type reply struct {
	birth  string
	grants [cells]grant
	later  uint64        // if a later message overtook this one, the number of the later message
	clock  time.Duration // the store's clock when it answered
}

var errOvertaken = errors.New("a later message was there first")

// parseReply reads the script's answer.
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
