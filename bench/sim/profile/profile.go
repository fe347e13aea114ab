package profile

import (
	"cmp"
	_ "embed" // embeds engines.json
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"penstock/bench/sim/textgen"
)

// Profile describes how one engine differs on the wire. Each value was observed on that engine, or
// read in the engine's source or documentation (see doc.go). Profiles never change after
// initialization.
type Profile struct {
	Name        string
	Description string   // description of the engine and its special features
	Family      string   // name of the engine whose chunks, checks and errors this engine shares
	Work        string   // kinds of work, separated by spaces; if empty, all
	Models      []string // models served by default; "sim" if nil
	Slots       int      // default number of slots; 0 means the default of sim

	Server     string // Server header
	Dated      bool   // sends the Date header
	Lower      bool   // header names are in lower case, as in uvicorn and hyper
	Headers    string // additional header lines in every response
	SSEHeaders string // additional header lines in streams
	JSONType   string
	SSEType    string
	TextType   string        // Content-Type of plain text pages and errors
	NoSpace    bool          // no space after "data:"
	Reasoning  string        // member for reasoning text
	HeadFirst  bool          // sends the head of a stream as soon as the slot is free, before the first token
	Roles      roleMode      // which chunks of a stream contain the role
	Loads      bool          // loads a model on its first request
	Joins      bool          // the role and the first token share a chunk, and so do the last events
	ErrorDone  bool          // sends [DONE] after an error event
	ErrorEvent string        // name of an error event
	WholeTools bool          // sends a whole tool call in one delta
	Latest     bool          // model names may omit ":latest"
	OneChoice  bool          // ignores n
	FirstTool  bool          // ignores tool_choice
	NamedTool  namedToolMode // how a tool_choice that names a tool is treated
	// response_format: "" accepts all, "schemas" refuses json_object, "value" expects the schema in
	// the member "value"
	Formats     string
	NullContent nullContentMode // how a message without content is treated
	Efforts     []string        // accepted reasoning_effort values; if empty, any
	FullInBand  bool            // answers a stream with 200 and an error event if the queue is full
	LongInBand  bool            // answers a stream with 200 and an error event if the prompt is too long
	Typed       bool            // refuses a Content-Type other than JSON
	// Accepts a prompt that leaves too little room for max_tokens, and truncates the response.
	Overrun    bool
	Local      bool             // on loopback, refuses a Host or Origin that is not local
	Auth       string           // paths that require the key: "v1", "work", "all" or ""
	Unknown    unknownModelMode // how an unknown model is treated
	Ping       time.Duration    // time between comments in a silent stream
	Idle       time.Duration    // idle timeout of connections; 0 means no timeout
	PerConn    int              // maximum number of requests per connection; 0 means no limit
	ErrorClose bool             // closes the connection after an error
	FullError  APIError         // error if the queue is full
	NoModel    APIError         // error for an unknown model; %s is replaced with the model's name
	// error types by status; 4 is the default for statuses below 500, and 5 for 500 and above
	Kinds    map[int]string
	Health   time.Duration // how long the engine takes to answer /health
	CallID   IDForm
	AnswerID IDForm
	NoPage   FixedReply // reply for an unknown path; if empty, an error in the usual form
	NoMethod FixedReply // reply for an unsupported method; if empty, FastAPI's
	NoKey    FixedReply // reply for a missing key; if empty, an error in the usual form
	// Members after the model in every chunk and response; %s is replaced with the model's name.
	Extra     string
	RoleDelta string               // delta that opens a choice
	EndDelta  string               // delta sent with finish_reason
	Around    map[string][2]string // JSON before and after the member of a token: text, thought or call
}

// FixedReply is a reply that is always the same, except for the method %m and the path %p.
type FixedReply struct {
	Status     int
	Type, Body string
}

type roleMode uint8

// Values of roleMode: the chunks of a stream that contain the role.
const (
	RoleSeparateChunk roleMode = iota // a separate chunk
	roleFirstToken                    // the chunk of the first token
	RoleEveryToken                    // the chunks of all tokens
)

type namedToolMode uint8

// Values of namedToolMode: how a tool_choice that names a tool is treated.
const (
	NamedToolObeyed namedToolMode = iota
	NamedToolAsAuto               // the engine treats it as auto
	NamedToolRefused
)

type nullContentMode uint8

// Values of nullContentMode: how a message without content is treated.
const (
	NullContentAccepted nullContentMode = iota // accepted in an assistant message
	NullContentRefused
	NullContentNeedsCalls // refused unless the message has tool calls
)

// UnmarshalText parses the name of a namedToolMode.
func (n *namedToolMode) UnmarshalText(b []byte) error {
	return parseEnum((*uint8)(n), b, "obeyed", "auto", "refused")
}

// UnmarshalText parses the name of a nullContentMode.
func (n *nullContentMode) UnmarshalText(b []byte) error {
	return parseEnum((*uint8)(n), b, "taken", "refused", "refused_without_calls")
}

type unknownModelMode uint8

// Values of unknownModelMode: how a model that the engine does not serve is treated.
const (
	UnknownModelRefused unknownModelMode = iota
	UnknownModelServed                   // answered with the first served name
	UnknownModelEchoed                   // answered with the requested name
)

// UnmarshalText parses the name of a roleMode.
func (m *roleMode) UnmarshalText(b []byte) error {
	return parseEnum((*uint8)(m), b, "alone", "first", "each")
}

// UnmarshalText parses the name of an unknownModelMode.
func (m *unknownModelMode) UnmarshalText(b []byte) error {
	return parseEnum((*uint8)(m), b, "refused", "served", "echo")
}

func parseEnum(to *uint8, b []byte, names ...string) error {
	i := slices.Index(names, string(b))
	if i < 0 {
		return fmt.Errorf("%q is none of %q", b, names)
	}
	*to = uint8(i)
	return nil
}

// IDForm describes the format of ids. Form is a fixed id or a format with one value. If Numbers is
// not 0, the value is one of Numbers numbers that start with From. Otherwise, it is 32 hex digits
// that look random.
type IDForm struct {
	Form          string
	From, Numbers uint64
}

// FormatID returns the id for a number.
func (f IDForm) FormatID(n uint64) string {
	switch {
	case f.Numbers > 0:
		return fmt.Sprintf(f.Form, f.From+n%f.Numbers)
	case strings.Contains(f.Form, "%"):
		return fmt.Sprintf(f.Form, Hex32(n))
	}
	return f.Form
}

// SupportsKind reports whether the engine performs a kind of work.
func (p *Profile) SupportsKind(kind string) bool {
	return p.Work == "" || slices.Contains(strings.Fields(p.Work), kind)
}

// MatchesAny reports whether names contains the name of the profile or of its family.
func (p *Profile) MatchesAny(names string) bool {
	return slices.ContainsFunc(strings.Fields(names), func(n string) bool { return n == p.Name || n == p.Family })
}

//go:embed engines.json
var enginesJSON []byte

// ByName contains all profiles by name. A variant describes an engine in a different mode. Its
// member Of names that engine, and the variant shares the engine's family.
var ByName = func() map[string]*Profile {
	var rows []json.RawMessage
	panicOnError(json.Unmarshal(enginesJSON, &rows))
	byName := map[string]*Profile{}
	for _, raw := range rows {
		var row struct {
			Profile
			Of                 string
			Idle, Ping, Health string
		}
		panicOnError(json.Unmarshal(raw, &row))
		if base := byName[row.Of]; base != nil {
			row.Profile = *base
			panicOnError(json.Unmarshal(raw, &row))
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
				panicOnError(err)
				*to = d
			}
		}
		byName[row.Name] = &row.Profile
	}
	return byName
}()

func panicOnError(err error) {
	if err != nil {
		panic("BUG: engines.json: " + err.Error())
	}
}

// HelpText returns the list of profiles for display.
func HelpText() string {
	var b strings.Builder
	b.WriteString("Engines, as --profile NAME:\n\n")
	for _, n := range Names() {
		fmt.Fprintf(&b, "  %-16s %s\n", n, ByName[n].Description)
	}
	return b.String()
}

// Hex32 returns 32 hex digits that look random but depend only on n.
func Hex32(n uint64) string {
	const hex = "0123456789abcdef"
	var b [32]byte
	a, c := textgen.MixHash(n, 1), textgen.MixHash(n, 2)
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

// Texts in pages and faulty responses that must never reach a client. Tests look for these texts.
const (
	LeakedHost   = "gpu-node-17.internal.example" // in HTML pages and texts of 5xx errors
	LeakedPath   = "/srv/models/secret-checkpoint"
	LeakedSecret = "s3cr3t-from-the-engine" // appears in headers
)
