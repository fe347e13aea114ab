package upstreams

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/config"
)

//go:embed engines/*.yaml
var engineFiles embed.FS

// EnginePenstock is the profile of another edge like this one, which discovery may come upon where
// engines usually are.
const EnginePenstock = "penstock"

// engineGeneric is the profile that all others start from. An engine that is not recognised gets
// it.
const engineGeneric = "openai"

// Operations that a profile has a path for beside config's key operations.
const (
	OpCompletions = "completions"
	OpCountTokens = "count_tokens"
	OpImageEdits  = "image_edits"
)

// defaultPaths are the paths of operations where an engine follows the usual shape. Counting tokens
// has none: an engine that can do it says so.
var defaultPaths = map[string]string{
	config.OpChat:           "/v1/chat/completions",
	OpCompletions:           "/v1/completions",
	config.OpMessages:       "/v1/messages",
	config.OpResponses:      "/v1/responses",
	config.OpTranscriptions: "/v1/audio/transcriptions",
	config.OpSpeech:         "/v1/audio/speech",
	config.OpEmbeddings:     "/v1/embeddings",
	config.OpRerank:         "/v1/rerank",
	config.OpImages:         "/v1/images/generations",
	OpImageEdits:            "/v1/images/edits",
}

// Profile is a compiled engine profile. It never changes and is shared by every upstream of its
// kind; slices and maps that its methods return are its own and must not be written.
type Profile struct {
	spec    config.Engine
	paths   map[string]string
	quirks  map[string]bool
	on, off []Member
	prefill []Member
	health  healthPage
}

// Member is one member to add to a request: its name and its value as JSON.
type Member struct {
	Name  string
	Value []byte
}

type healthPage struct {
	path    string
	timeout time.Duration
	any     bool // every answer below 500 is good
}

// Profiles are all profiles that an upstream may name, in the order in which detection tries them:
// a user's own first, then the bundled ones from the most telling to the most general.
type Profiles struct {
	user    []config.Engine
	byName  map[string]*Profile
	ordered []*Profile
}

// LoadProfiles compiles the bundled profiles and the user's, which may replace a bundled one by its
// name. An error names the profile and the member that is wrong.
func LoadProfiles(user []config.Engine) (*Profiles, error) {
	specs, err := bundledEngines()
	if err != nil {
		return nil, err
	}
	own := make(map[string]bool, len(user))
	for i := range user {
		if own[user[i].Name] {
			return nil, fmt.Errorf("engine profile %q is given twice", user[i].Name)
		}
		own[user[i].Name] = true
		specs[user[i].Name] = user[i]
	}
	p := &Profiles{user: slices.Clone(user), byName: make(map[string]*Profile, len(specs))}
	for name := range specs {
		full, err := resolveEngine(specs, name, nil)
		if err != nil {
			return nil, err
		}
		if p.byName[name], err = newProfile(full); err != nil {
			return nil, err
		}
	}
	for i := range user {
		p.ordered = append(p.ordered, p.byName[user[i].Name])
	}
	for _, name := range detectionOrder {
		if !own[name] {
			p.ordered = append(p.ordered, p.byName[name])
		}
	}
	return p, nil
}

// with returns the profiles with the user's given ones: p itself when those are the same as before.
func (p *Profiles) with(user []config.Engine) (*Profiles, error) {
	if len(user) == len(p.user) && (len(user) == 0 || reflect.DeepEqual(user, p.user)) {
		return p, nil
	}
	return LoadProfiles(user)
}

// detectionOrder lists every bundled profile. An engine that answers like another one as well (the
// router of llama.cpp, the simulator that plays vLLM) stands before it; the ones that cost the most
// requests to rule out stand last.
var detectionOrder = []string{
	"sim", "vllm", "sglang", "trtllm", "llamacpp-router", "llamacpp", "kokoro", "ollama", "whisper-openai", "whisper", "tgi", "lmstudio", EnginePenstock, "speaches", engineGeneric,
}

// EngineNames returns the names an upstream's `engine` may have, sorted: auto, the bundled profiles
// and the user's.
func EngineNames(user []config.Engine) []string {
	names := append([]string{config.EngineAuto}, detectionOrder...)
	for i := range user {
		names = append(names, user[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// bundledEngines parses the embedded files. They are part of the program, so an error is a mistake
// in it.
func bundledEngines() (map[string]config.Engine, error) {
	files, err := fs.Glob(engineFiles, "engines/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list bundled engine profiles: %w", err)
	}
	specs := make(map[string]config.Engine, len(files))
	for _, file := range files {
		src, err := engineFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read bundled engine profile %s: %w", file, err)
		}
		var e config.Engine
		if err := config.Decode(file, src, &e); err != nil {
			return nil, fmt.Errorf("parse bundled engine profile %s: %w", file, err)
		}
		specs[e.Name] = e
	}
	return specs, nil
}

// resolveEngine follows `like` down to the generic profile and merges on the way back. A profile
// that replaces a bundled one of the same name cannot be like it: the name means itself.
func resolveEngine(specs map[string]config.Engine, name string, path []string) (*config.Engine, error) {
	e := specs[name]
	if name == engineGeneric && e.Like == "" {
		return &e, nil
	}
	like := e.Like
	if like == "" {
		like = engineGeneric
	}
	path = append(path, name)
	if slices.Contains(path, like) {
		return nil, fmt.Errorf("engine profile %q: like: it is made of itself (%s)", path[0], strings.Join(append(path, like), " → "))
	}
	if _, ok := specs[like]; !ok {
		return nil, fmt.Errorf("engine profile %q: like: there is no profile %q; use one of %s", name, like, strings.Join(slices.Sorted(maps.Keys(specs)), ", "))
	}
	base, err := resolveEngine(specs, like, path)
	if err != nil {
		return nil, err
	}
	// How an engine is recognised belongs to it alone: a profile that is like vLLM must not claim
	// every vLLM.
	below := *base
	below.Detect, below.Ports, below.Title = nil, nil, ""
	full := e.Over(&below)
	return &full, nil
}

func newProfile(e *config.Engine) (*Profile, error) {
	if problems := e.Problems(); len(problems) > 0 {
		return nil, fmt.Errorf("engine profile %q: %s", e.Name, strings.Join(problems, "; "))
	}
	p := &Profile{
		spec:   *e,
		paths:  maps.Clone(defaultPaths),
		quirks: make(map[string]bool, len(e.Quirks)),
		health: healthPage{path: e.Health.Path, timeout: e.Health.Timeout.D(), any: e.Health.Alive == config.AliveAny},
	}
	maps.Copy(p.paths, e.Paths)
	for _, q := range e.Quirks {
		p.quirks[q] = true
	}
	var err error
	if p.off, err = members(e.Reasoning.Off); err == nil {
		p.on, err = members(e.Reasoning.On)
	}
	if err != nil {
		return nil, fmt.Errorf("engine profile %q: reasoning: %w", e.Name, err)
	}
	if p.prefill, err = members(e.Prefill); err != nil {
		return nil, fmt.Errorf("engine profile %q: prefill: %w", e.Name, err)
	}
	return p, nil
}

func members(m map[string]any) ([]Member, error) {
	out := make([]Member, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) { // sorted: what is sent must not change from call to call
		value, err := json.Marshal(m[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, Member{name, value})
	}
	return out, nil
}

// Name is the word that a config's `engine` uses.
func (p *Profile) Name() string { return p.spec.Name }

// Title names the engine for people.
func (p *Profile) Title() string {
	if p.spec.Title == "" {
		return p.spec.Name
	}
	return p.spec.Title
}

// Path returns the path of an operation (config.OpChat and its neighbours, OpCompletions,
// OpCountTokens, OpImageEdits). It is empty for one that this engine is known not to have.
func (p *Profile) Path(op string) string { return p.paths[op] }

// KeepAlive is how long an idle connection may be kept; the engine drops it later than that.
func (p *Profile) KeepAlive() time.Duration { return p.spec.KeepAlive.D() }

// TokenLimitMember is the request member that the engine reads a token limit from: max_tokens or
// max_completion_tokens. Empty means that it reads both, so the client's own stays.
func (p *Profile) TokenLimitMember() string {
	if p.spec.TokenLimit == config.TokenLimitAsSent {
		return ""
	}
	return p.spec.TokenLimit
}

// Prefill lists the members to add to a request whose last message is the beginning of the answer;
// none for an engine that goes on with it by itself, or never does.
func (p *Profile) Prefill() []Member { return p.prefill }

// CacheSalt is the request member that keeps cached prompts apart; empty for an engine that has
// none.
func (p *Profile) CacheSalt() string { return p.spec.CacheSalt }

// SystemMessages is "fold" or "in_place".
func (p *Profile) SystemMessages() string { return p.spec.SystemMessages }

// NativeDialects lists the dialects ("messages", "responses") that the engine speaks well enough to
// be passed through. It is advice for the operator: an upstream's own `native` decides.
func (p *Profile) NativeDialects() []string { return p.spec.Native }

// RefusedMembers lists the request members that steer the engine rather than the model and must be
// refused; one that ends in * stands for all that begin so, and outer.inner for a member of the
// object that outer names.
func (p *Profile) RefusedMembers() []string { return p.spec.Refused }

// ClientFault reports whether a 5xx answer is known to be the client's mistake: it is answered with
// 400, never retried and never counted against the upstream. errorType and message are those of the
// engine's error body; either may be empty.
func (p *Profile) ClientFault(status int, errorType, message string) bool {
	return slices.ContainsFunc(p.spec.ClientFaults, func(e config.EngineError) bool { return matches(&e, status, errorType, message) })
}

// Overload reports whether an answer means that the engine is full rather than broken: outcome
// OutcomeRefused.
func (p *Profile) Overload(status int, errorType, message string) bool {
	return slices.ContainsFunc(p.spec.Overloads, func(e config.EngineError) bool { return matches(&e, status, errorType, message) })
}

// NotNow reports whether an answer may be another one a moment later, without a change to the
// request.
func (p *Profile) NotNow(status int, errorType, message string) bool {
	return slices.ContainsFunc(p.spec.NotNow, func(e config.EngineError) bool { return matches(&e, status, errorType, message) })
}

func matches(e *config.EngineError, status int, errorType, message string) bool {
	if e.Status != status || e.Type != "" && e.Type != errorType || e.Silent && (errorType != "" || message != "") {
		return false
	}
	return len(e.Messages) == 0 || slices.ContainsFunc(e.Messages, func(part string) bool { return strings.Contains(message, part) })
}

// ReasoningForm says how the engine is told a reasoning effort: the member that takes the effort's
// word (empty: none), the words it takes (empty: all), and the members to add when reasoning is
// switched off ("none") or on.
func (p *Profile) ReasoningForm() (member string, words []string, off, on []Member) {
	return p.spec.Reasoning.Effort, p.spec.Reasoning.Words, p.off, p.on
}

// CancelOnlyStreams reports that a plain request of a client that left runs to its end: ask for a
// stream instead.
func (p *Profile) CancelOnlyStreams() bool { return p.quirks[config.QuirkCancelOnlyStreams] }

// ContinuousUsage reports that stream_options.continuous_usage_stats puts usage on every chunk.
func (p *Profile) ContinuousUsage() bool { return p.quirks[config.QuirkContinuousUsage] }

// LoadsOnDemand reports that a listed model which is not loaded is loaded by the first request for
// it.
func (p *Profile) LoadsOnDemand() bool { return p.quirks[config.QuirkLoadsOnDemand] }

// OwnHost reports that the engine checks the Host header against its own names and addresses.
func (p *Profile) OwnHost() bool { return p.quirks[config.QuirkOwnHost] }

// StreamsTranscriptions reports that a transcription can be asked for as a stream of events.
func (p *Profile) StreamsTranscriptions() bool { return p.quirks[config.QuirkStreamsTranscriptions] }

// DeveloperAsSystem reports that messages of the role developer are to be sent as system.
func (p *Profile) DeveloperAsSystem() bool { return p.quirks[config.QuirkDeveloperAsSystem] }

// Quirks lists the profile's quirks by name, in the order of the profile.
func (p *Profile) Quirks() []string { return p.spec.Quirks }

// Named returns the profile of that name.
func (p *Profiles) Named(name string) (*Profile, bool) {
	profile, ok := p.byName[name]
	return profile, ok
}

// All returns every profile in the order of detection. The slice is p's own.
func (p *Profiles) All() []*Profile { return p.ordered }

func (p *Profiles) generic() *Profile { return p.byName[engineGeneric] }

// UsualAddresses lists loopback with every port that a profile's engine usually has, without those
// in skip (host:port or :port), sorted. The caller passes its own listeners, so that an edge never
// takes itself for an engine.
func (p *Profiles) UsualAddresses(skip ...string) []string {
	taken := make(map[string]bool, len(skip))
	for _, address := range skip {
		if _, port, err := net.SplitHostPort(address); err == nil {
			taken[port] = true
		}
	}
	ports := map[int]bool{}
	for _, profile := range p.ordered {
		for _, port := range profile.spec.Ports {
			ports[port] = !taken[strconv.Itoa(port)]
		}
	}
	var out []string
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		if ports[port] {
			out = append(out, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		}
	}
	return out
}
