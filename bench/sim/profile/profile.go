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

// Profile describes how one engine differs on the wire. Each value was observed on that engine, or
// read in its source or its documentation (see doc.go). A Profile never changes after New.
type Profile struct {
	Name   string
	Plays  string   // what the engine is, and its special features
	Family string   // engine whose chunks, checks and errors it uses
	Work   string   // its kinds of work, separated by blanks, as in routes; empty: all
	Models []string // served by default; nil: "sim"
	Slots  int      // default number; 0: defaultSlots

	Server      string // Server header
	Dated       bool   // sends Date
	Lower       bool   // header names in lower case, as uvicorn and hyper write them
	Headers     string // further lines on every answer
	SSEHeaders  string // further lines on streams
	JSONType    string
	SSEType     string
	TextType    string         // Content-Type of pages and errors in plain text
	NoSpace     bool           // no blank after "data:"
	Reasoning   string         // member for reasoning text
	HeadFirst   bool           // a stream's head is sent when the slot is free, instead of with the first token
	Roles       roleMode       // where a stream gives the role
	Loads       bool           // a model is loaded on its first request
	Joins       bool           // role and first token share a chunk, and so do the last events
	ErrorDone   bool           // [DONE] follows an error event
	ErrorEvent  string         // name of an error event
	WholeTools  bool           // a tool call comes in one delta
	Latest      bool           // ":latest" may be left out of names
	OneChoice   bool           // n is ignored
	FirstTool   bool           // tool_choice is ignored
	NamedTool   namedTool      // meaning of a tool_choice that names a tool
	Formats     string         // response_format: "" accepts all, "schemas" no json_object, "value" schemas in the member value
	NullContent nullContent    // treatment of a message without content
	Efforts     []string       // accepted words of reasoning_effort; empty: any
	FullInBand  bool           // a full queue answers a stream with 200 and an error event
	LongInBand  bool           // the same for a prompt that is too long
	Typed       bool           // refuses a Content-Type other than JSON
	Overrun     bool           // accepts a prompt that fits but leaves too little room, and cuts the answer
	Local       bool           // on loopback, refuses a Host or Origin that is not local
	Auth        string         // which paths need the key: "v1", "work", "all", ""
	Unknown     unknownModel   // treatment of an unknown model
	Ping        time.Duration  // between comments in a silent stream
	Idle        time.Duration  // lifetime of an idle connection; 0: forever
	PerConn     int            // requests per connection; 0: no limit
	ErrorClose  bool           // an error is the last answer of its connection
	FullError   APIError       // error of a full queue
	NoModel     APIError       // error for an unknown model; %s stands for its name
	Kinds       map[int]string // names of errors by status; 4 and 5 stand for all below 500 and all others
	Health      time.Duration  // duration of /health
	CallID      IDForm
	AnswerID    IDForm
	NoPage      FixedReply           // for an unknown path; empty: an error in the usual form
	NoMethod    FixedReply           // answer for an unsupported method of a path; empty: FastAPI's
	NoKey       FixedReply           // answer without the key; empty: an error in the usual form
	Extra       string               // members after the model in every chunk and answer; %s stands for its name
	RoleDelta   string               // delta that opens a choice
	EndDelta    string               // delta that is sent with finish_reason
	Around      map[string][2]string // around a token's member: text, thought or call
}

// FixedReply is an answer that never changes, except for the method %m and the path %p.
type FixedReply struct {
	Status     int
	Type, Body string
}

type roleMode uint8

// The places in which a stream gives the role.
const (
	RoleAlone roleMode = iota // in a separate chunk
	roleFirst                 // with the first token
	RoleEach                  // with every token
)

type namedTool uint8

// The meanings of a tool_choice that names a tool.
const (
	NamedObeyed namedTool = iota
	NamedAuto             // treated as auto
	NamedRefused
)

type nullContent uint8

// The treatments of a message without content.
const (
	NullTaken nullContent = iota // if it is the assistant's
	NullRefused
	NullRefusedWithoutCalls // unless it has tool calls
)

// UnmarshalText reads the meaning of a tool_choice that names a tool.
func (n *namedTool) UnmarshalText(b []byte) error {
	return oneOf((*uint8)(n), b, "obeyed", "auto", "refused")
}

// UnmarshalText reads the treatment of a message without content.
func (n *nullContent) UnmarshalText(b []byte) error {
	return oneOf((*uint8)(n), b, "taken", "refused", "refused_without_calls")
}

type unknownModel uint8

// The treatments of a model that the engine does not have.
const (
	UnknownRefused unknownModel = iota
	UnknownServed               // answered under the first served name
	UnknownEcho                 // answered under the asked name
)

// UnmarshalText reads where a stream gives the role.
func (m *roleMode) UnmarshalText(b []byte) error {
	return oneOf((*uint8)(m), b, "alone", "first", "each")
}

// UnmarshalText reads the treatment of an unknown model.
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

// IDForm describes how ids look: either 32 letters that look random, or a prefix and a number from
// a range.
type IDForm struct {
	Form          string
	From, Numbers uint64
}

// Make returns the id for a number.
func (f IDForm) Make(n uint64) string {
	switch {
	case f.Numbers > 0:
		return fmt.Sprintf(f.Form, f.From+n%f.Numbers)
	case strings.Contains(f.Form, "%"):
		return fmt.Sprintf(f.Form, Hex32(n))
	}
	return f.Form
}

// Does reports whether the engine performs a kind of work.
func (p *Profile) Does(kind string) bool {
	return p.Work == "" || slices.Contains(strings.Fields(p.Work), kind)
}

// Is reports whether the profile or its family is one of the names.
func (p *Profile) Is(names string) bool {
	return slices.ContainsFunc(strings.Fields(names), func(n string) bool { return n == p.Name || n == p.Family })
}

//go:embed engines.json
var engines []byte

// ByName holds all profiles by name. A variant is an engine in another mode: it differs little from
// the engine that Of names, and keeps that engine's family.
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

// Text returns all profiles for display.
func Text() string {
	var b strings.Builder
	b.WriteString("Engines, as --profile NAME:\n\n")
	for _, n := range Names() {
		fmt.Fprintf(&b, "  %-16s %s\n", n, ByName[n].Plays)
	}
	return b.String()
}

// Hex32 returns 32 letters that look random.
func Hex32(n uint64) string {
	const hex = "0123456789abcdef"
	var b [32]byte
	a, c := textgen.Mix(n, 1), textgen.Mix(n, 2)
	for i := range 16 {
		b[i], b[i+16] = hex[a>>(4*i)&15], hex[c>>(4*i)&15]
	}
	return string(b[:])
}

// Names returns the names of all profiles, sorted.
func Names() []string {
	var names []string
	for n := range ByName {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Texts in pages and faulty answers that must never reach a client. Tests look for them.
const (
	LeakedHost   = "gpu-node-17.internal.example" // in HTML pages and 5xx texts
	LeakedPath   = "/srv/models/secret-checkpoint"
	LeakedSecret = "s3cr3t-from-the-engine" // in headers
)
