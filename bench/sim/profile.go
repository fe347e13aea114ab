package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"penstock/bench/sim/textgen"
)

// profile is what tells one engine from another on the wire. Each value was seen on that engine, or
// read in its source or its documentation: the tables in profiles_*.go say which. Its contents are
// never changed after New.
type profile struct {
	name   string
	plays  string   // for people: what it is, and what is special about it
	family string   // whose chunks, checks and errors it has: its own name, or that of the engine it is a variant of
	work   string   // the kinds of work it does, blank between, as in routes; empty: all
	models []string // served when nobody says; nil: "sim"
	slots  int      // when nobody says; 0: defaultSlots

	server     string // Server header
	dated      bool   // sends Date
	lower      bool   // header names in lower case, as uvicorn and hyper write them
	headers    string // further lines on every answer
	sseHeaders string // further lines on streams
	jsonType   string
	sseType    string
	textType   string        // of pages and errors in plain text
	nospace    bool          // no blank after "data:"
	reasoning  string        // member for reasoning text
	headFirst  bool          // a stream's head goes out when the slot is free, not with the first token
	roles      roleMode      // where a stream tells the role
	loads      bool          // a model is loaded at its first request
	joins      bool          // role and first token share a chunk, so do the last events
	errorDone  bool          // [DONE] follows an error event
	errorEvent string        // name of an error event
	wholeTools bool          // a tool call comes in one delta
	latest     bool          // ":latest" may be left out of names
	oneChoice  bool          // n is ignored
	firstTool  bool          // tool_choice is ignored
	fullInBand bool          // a full queue answers a stream with 200 and an error event
	longInBand bool          // a prompt that is too long likewise
	typed      bool          // refuses a Content-Type that is not JSON
	overrun    bool          // a prompt that fits but leaves too little room is not refused: the answer is cut
	local      bool          // on loopback, refuses a Host or Origin that is not local
	auth       string        // which paths need the key: "v1", "work", "all", ""
	unknown    unknownModel  // what becomes of a model it does not have
	ping       time.Duration // between comments in a silent stream
	idle       time.Duration // an idle connection's life; 0: for ever
	perConn    int           // requests a connection; 0: no bound
	errorClose bool          // an error is the last answer on its connection
	health     time.Duration // how long /health takes
	callID     func(n uint64) string
	answerID   func(n uint64) string
	page404    string // body for unknown paths, empty: an error of the profile's own shape
}

type roleMode uint8

const (
	roleAlone roleMode = iota // in a chunk of its own
	roleFirst                 // with the first token
	roleEach                  // with every token
)

type unknownModel uint8

const (
	unknownRefused unknownModel = iota
	unknownServed               // answered under the first served name
	unknownEcho                 // answered under the asked name
)

// variant is an engine in another mode: a profile that differs in little from another one, whose
// family it keeps.
type variant struct {
	name, of, plays string
	change          func(*profile)
}

// does reports whether the engine does a kind of work.
func (p *profile) does(kind string) bool {
	return p.work == "" || slices.Contains(strings.Fields(p.work), kind)
}

// is reports whether the profile is one of the named ones or of their families.
func (p *profile) is(names string) bool {
	return slices.ContainsFunc(strings.Fields(names), func(n string) bool { return n == p.name || n == p.family })
}

// profiles are all of them by name.
var profiles = func() map[string]*profile {
	byName := map[string]*profile{}
	for _, p := range slices.Concat(textProfiles, audioProfiles) {
		p.family = p.name
		byName[p.name] = &p
	}
	for _, v := range slices.Concat(textVariants, audioVariants) {
		p := *byName[v.of]
		p.name, p.plays = v.name, v.plays
		v.change(&p)
		byName[p.name] = &p
	}
	return byName
}()

// Profiles are the names that Options.Profile knows, sorted.
func Profiles() []string {
	var names []string
	for n := range profiles {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// profilesText is all profiles for people.
func profilesText() string {
	var b strings.Builder
	b.WriteString("Engines, as --profile NAME:\n\n")
	for _, n := range Profiles() {
		fmt.Fprintf(&b, "  %-16s %s\n", n, profiles[n].plays)
	}
	return b.String()
}

// hex32 is 32 letters that look random.
func hex32(n uint64) string {
	const hex = "0123456789abcdef"
	var b [32]byte
	a, c := textgen.Mix(n, 1), textgen.Mix(n, 2)
	for i := range 16 {
		b[i], b[i+16] = hex[a>>(4*i)&15], hex[c>>(4*i)&15]
	}
	return string(b[:])
}
