package profile

import (
	"cmp"
	_ "embed" // of engines.json
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"penstock/bench/sim/textgen"
)

// Profile is what tells one engine from another on the wire. Each value was seen on that engine, or
// read in its source or its documentation: doc.go says which. Its contents are never
// changed after New.
type Profile struct {
	Name   string
	Plays  string   // for people: what it is, and what is special about it
	Family string   // whose chunks, checks and errors it has: its own name, or that of the engine it is a variant of
	Work   string   // the kinds of work it does, blank between, as in routes; empty: all
	Models []string // served when nobody says; nil: "sim"
	Slots  int      // when nobody says; 0: defaultSlots

	Server      string // Server header
	Dated       bool   // sends Date
	Lower       bool   // header names in lower case, as uvicorn and hyper write them
	Headers     string // further lines on every answer
	SSEHeaders  string // further lines on streams
	JSONType    string
	SSEType     string
	TextType    string         // of pages and errors in plain text
	NoSpace     bool           // no blank after "data:"
	Reasoning   string         // member for reasoning text
	HeadFirst   bool           // a stream's head goes out when the slot is free, not with the first token
	Roles       roleMode       // where a stream tells the role
	Loads       bool           // a model is loaded at its first request
	Joins       bool           // role and first token share a chunk, so do the last events
	ErrorDone   bool           // [DONE] follows an error event
	ErrorEvent  string         // name of an error event
	WholeTools  bool           // a tool call comes in one delta
	Latest      bool           // ":latest" may be left out of names
	OneChoice   bool           // n is ignored
	FirstTool   bool           // tool_choice is ignored
	NamedTool   namedTool      // what a tool_choice that names a tool is
	Formats     string         // response_format: "" takes all, "schemas" no json_object, "value" schemas in the member value
	NullContent nullContent    // what becomes of a message without content
	Efforts     []string       // words of reasoning_effort that are not refused; empty: any
	FullInBand  bool           // a full queue answers a stream with 200 and an error event
	LongInBand  bool           // a prompt that is too long likewise
	Typed       bool           // refuses a Content-Type that is not JSON
	Overrun     bool           // a prompt that fits but leaves too little room is not refused: the answer is cut
	Local       bool           // on loopback, refuses a Host or Origin that is not local
	Auth        string         // which paths need the key: "v1", "work", "all", ""
	Unknown     unknownModel   // what becomes of a model it does not have
	Ping        time.Duration  // between comments in a silent stream
	Idle        time.Duration  // an idle connection's life; 0: for ever
	PerConn     int            // requests a connection; 0: no bound
	ErrorClose  bool           // an error is the last answer on its connection
	FullError   APIError       // of a full queue
	NoModel     APIError       // of a model that it does not have, whose name is %s in it
	Kinds       map[int]string // names of errors by status; those below 500 and from 500 on by 4 and 5
	Health      time.Duration  // how long /health takes
	CallID      IDForm
	AnswerID    IDForm
	NoPage      FixedReply           // of a path that it does not have; empty: an error of its own shape
	NoMethod    FixedReply           // of a method that a path does not have; empty: FastAPI's
	NoKey       FixedReply           // without the key; empty: an error of its own shape
	Extra       string               // members of every chunk and answer behind the model, whose name is %s in it
	RoleDelta   string               // the delta that opens a choice
	EndDelta    string               // the delta that comes with finish_reason
	Around      map[string][2]string // what stands before and behind the member of a token: text, thought or call
}

// FixedReply is an answer that is always the same, but for the method %m and the path %p.
type FixedReply struct {
	Status     int
	Type, Body string
}

type roleMode uint8

// Where a stream tells the role.
const (
	RoleAlone roleMode = iota // in a chunk of its own
	roleFirst                 // with the first token
	RoleEach                  // with every token
)

type namedTool uint8

// What a tool_choice that names a tool is.
const (
	NamedObeyed namedTool = iota
	NamedAuto             // it reads as auto
	NamedRefused
)

type nullContent uint8

// What becomes of a message without content.
const (
	NullTaken nullContent = iota // where it is the assistant's
	NullRefused
	NullRefusedWithoutCalls // unless it has tool calls
)

// UnmarshalText reads what a tool_choice that names a tool is.
func (n *namedTool) UnmarshalText(b []byte) error {
	return oneOf((*uint8)(n), b, "obeyed", "auto", "refused")
}

// UnmarshalText reads what becomes of a message without content.
func (n *nullContent) UnmarshalText(b []byte) error {
	return oneOf((*uint8)(n), b, "taken", "refused", "refused_without_calls")
}

type unknownModel uint8

// What becomes of a model that the engine does not have.
const (
	UnknownRefused unknownModel = iota
	UnknownServed               // answered under the first served name
	UnknownEcho                 // answered under the asked name
)

// UnmarshalText reads where a stream tells the role.
func (m *roleMode) UnmarshalText(b []byte) error {
	return oneOf((*uint8)(m), b, "alone", "first", "each")
}

// UnmarshalText reads what becomes of an unknown model.
func (m *unknownModel) UnmarshalText(b []byte) error {
	return oneOf((*uint8)(m), b, "refused", "served", "echo")
}

func oneOf(to *uint8, b []byte, names ...string) error {
	i := slices.Index(names, string(b))
	if i < 0 {
		return fmt.Errorf("%q is none of %q", b, names)
	}
	*to = uint8(i)
	return nil
}

// IDForm is how ids look: a form for 32 letters that look random, or for a number of so many.
type IDForm struct {
	Form          string
	From, Numbers uint64
}

// Make makes the id of a number.
func (f IDForm) Make(n uint64) string {
	switch {
	case f.Numbers > 0:
		return fmt.Sprintf(f.Form, f.From+n%f.Numbers)
	case strings.Contains(f.Form, "%"):
		return fmt.Sprintf(f.Form, Hex32(n))
	}
	return f.Form
}

// Does reports whether the engine does a kind of work.
func (p *Profile) Does(kind string) bool {
	return p.Work == "" || slices.Contains(strings.Fields(p.Work), kind)
}

// Is reports whether the profile is one of the named ones or of their families.
func (p *Profile) Is(names string) bool {
	return slices.ContainsFunc(strings.Fields(names), func(n string) bool { return n == p.Name || n == p.Family })
}

//go:embed engines.json
var engines []byte

// ByName are all of them by name. A variant is an engine in another mode: it differs in little from
// the one that it is Of, whose family it keeps.
var ByName = func() map[string]*Profile {
	var rows []json.RawMessage
	must(json.Unmarshal(engines, &rows))
	byName := map[string]*Profile{}
	for _, raw := range rows {
		var row struct {
			Profile
			Of                 string
			Idle, Ping, Health string
		}
		must(json.Unmarshal(raw, &row))
		if base := byName[row.Of]; base != nil {
			row.Profile = *base
			must(json.Unmarshal(raw, &row))
		} else {
			row.Family = row.Name
			row.RoleDelta = cmp.Or(row.RoleDelta, `{"role":"assistant","content":""}`)
			row.EndDelta = cmp.Or(row.EndDelta, "{}")
		}
		for to, text := range map[*time.Duration]string{
			&row.Profile.Idle: row.Idle, &row.Profile.Ping: row.Ping, &row.Profile.Health: row.Health,
		} {
			if text != "" {
				d, err := time.ParseDuration(text)
				must(err)
				*to = d
			}
		}
		byName[row.Name] = &row.Profile
	}
	return byName
}()

func must(err error) {
	if err != nil {
		panic("BUG: engines.json: " + err.Error())
	}
}

// Text is all profiles for people.
func Text() string {
	var b strings.Builder
	b.WriteString("Engines, as --profile NAME:\n\n")
	for _, n := range Names() {
		fmt.Fprintf(&b, "  %-16s %s\n", n, ByName[n].Plays)
	}
	return b.String()
}

// Hex32 is 32 letters that look random.
func Hex32(n uint64) string {
	const hex = "0123456789abcdef"
	var b [32]byte
	a, c := textgen.Mix(n, 1), textgen.Mix(n, 2)
	for i := range 16 {
		b[i], b[i+16] = hex[a>>(4*i)&15], hex[c>>(4*i)&15]
	}
	return string(b[:])
}

// Names are the names of all profiles, sorted.
func Names() []string {
	var names []string
	for n := range ByName {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// What pages and faulty answers carry that must never reach a client. Tests look for them.
const (
	LeakedHost   = "gpu-node-17.internal.example" // in HTML pages and 5xx texts
	LeakedPath   = "/srv/models/secret-checkpoint"
	LeakedSecret = "s3cr3t-from-the-engine" // in headers
)
