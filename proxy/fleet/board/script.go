package board

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valkey-io/valkey-go"

	"penstock/upstreams"
)

//go:embed board.lua
var boardSource string

var boardScript = valkey.NewLuaScript(boardSource)

// workLeaseDuration is how long an edge's work counts after the edge's last message. It is short
// because engines cancel the calls of a dead edge as soon as its connections close.
const workLeaseDuration = 3 * time.Second

// UpstreamKey returns the name of an upstream in the store, which is a hash of the upstream's id.
func UpstreamKey(id upstreams.ID) string { return fmt.Sprintf("%016x", xxhash.Sum64String(string(id))) }

// workByUpstream maps upstream names to work. work.down is the number of edges that have found the
// upstream down.
type workByUpstream map[string]upstreamWork

type upstreamWork struct {
	calls [3]int
	down  int
}

func (w workByUpstream) String() string {
	names := make([]string, 0, len(w))
	for name, one := range w {
		if one != (upstreamWork{}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		one := w[name]
		fmt.Fprintf(&b, "%s %d %d %d %d ", name, one.calls[0], one.calls[1], one.calls[2], one.down)
	}
	return strings.TrimSuffix(b.String(), " ")
}

func parseWorks(text string) (workByUpstream, error) {
	words := strings.Fields(text)
	if len(words)%5 != 0 {
		return nil, errors.New("the board's work is cut")
	}
	w := make(workByUpstream, len(words)/5)
	for i := 0; i < len(words); i += 5 {
		var n [4]int
		for k := range n {
			var err error
			if n[k], err = strconv.Atoi(words[i+1+k]); err != nil {
				return nil, errors.New("the board's work has no numbers")
			}
		}
		w[words[i]] = upstreamWork{[3]int(n[:3]), n[3]}
	}
	return w, nil
}

type sharedFact struct {
	number      uint64
	name, value string // an empty value deletes the fact
	lifetime    time.Duration
}

type boardMessage struct {
	edge    string
	number  uint64
	work    string // unchangedWork if the work has not changed
	version string // version of the facts that the edge knows
	seed    string // used if the board does not exist
	facts   []sharedFact
}

const unchangedWork = "="

func (m *boardMessage) scriptArgs() []string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	out := []string{m.edge, strconv.FormatUint(m.number, 10), ms(workLeaseDuration), m.work, m.version, m.seed}
	for _, f := range m.facts {
		out = append(out, strconv.FormatUint(f.number, 10), f.name, f.value, ms(f.lifetime))
	}
	return out
}

type boardReply struct {
	workKnown bool
	edges     int
	works     workByUpstream
	version   string
	facts     map[string]string // nil if the facts are unchanged
}

var errOvertaken = errors.New("a later message was there first")

// parseReply parses the answer to a message. version is the version of the facts that the edge knew
// when it sent the message.
func parseReply(list []valkey.ValkeyMessage, version string) (r boardReply, err error) {
	if len(list) == 1 {
		return r, errOvertaken
	}
	if len(list) < 4 || len(list)%2 != 0 {
		return r, fmt.Errorf("the board answers with %d values", len(list))
	}
	words := make([]string, len(list))
	for i := range list {
		if i == 1 {
			n, err := list[i].AsInt64()
			if err != nil {
				return r, err
			}
			r.edges = int(n)
			continue
		}
		if words[i], err = list[i].ToString(); err != nil {
			return r, err
		}
	}
	r.workKnown, r.version = words[0] == "ok", words[3]
	if r.works, err = parseWorks(words[2]); err != nil || r.version == version {
		return r, err
	}
	r.facts = make(map[string]string, (len(words)-4)/2)
	for i := 4; i < len(words); i += 2 {
		r.facts[words[i]] = words[i+1]
	}
	return r, nil
}
