package chat

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate/jsonx"
)

// EngineFormat is the form in which an engine takes a request. It is only read, so it can be
// shared.
type EngineFormat struct {
	// Served is the name that the engine knows the model by. It must not be empty.
	Served string
	// Stream asks the engine for events even though the client wants one answer, so that it can be
	// cancelled.
	Stream bool
	// TokenMember is the member that the engine reads the token limit from, max_tokens or
	// max_completion_tokens. With any other word the limit stays where the client wrote it.
	TokenMember string
	// ContinuousUsage asks for usage on every chunk of a stream, from engines that know
	// continuous_usage_stats.
	ContinuousUsage bool
	// Reasoning is how the engine takes the effort; nil: the contract's own word in
	// reasoning_effort.
	Reasoning *Reasoning
	// Prefill are members to add when the last message is the beginning of the answer
	// (Request.Prefilled), for engines that would take it for a message of its own and begin anew.
	// They are added as those of Reasoning are, and behind them.
	Prefill []Member
	// DeveloperAsSystem: the engine's chat templates know no role developer.
	DeveloperAsSystem bool
	// Salt keeps the cached prompts of clients apart.
	Salt Salt
}

// Reasoning is the form in which an engine takes the reasoning effort.
type Reasoning struct {
	// Effort is the top-level member that takes the effort's word; empty: the engine reads none.
	Effort string
	// Words are the words of Efforts that the engine takes; empty: all. LowerEffort replaces
	// another one; "none" is left out if it is missing here.
	Words []string
	// Off and On are members to add when the effort is "none", or any other. Where the client has
	// sent an object of that name, what is missing in it is added; nothing that the client has set
	// is overwritten.
	Off, On []Member
}

// Member is a member of a JSON object; Value is JSON text.
type Member struct {
	Name  string
	Value []byte
}

// AppendUpstream appends the body in the engine's format to dst: the client's body, byte for byte,
// with these members changed and no others:
//
//   - model is the served name;
//   - stream is true when the client or the format wants events, and then stream_options has
//     include_usage true beside whatever the client put there; without events stream_options goes,
//     because some engines refuse it;
//   - the token limit is the checked one, or what Fit has lowered it to, under the format's name
//     for it, and the model's own where the client gave none; what engines read beside it is
//     lowered with it;
//   - integers that were written 1.0 or 1e2 are written out in digits;
//   - an image's URL that is a plain string becomes the object {"url":…}, which every engine reads;
//   - the effort is in the format's form; reasoning and include_reasoning go: engines do not share
//     a reading of them, and the edge itself hides reasoning from a client that does not want it;
//   - the format's Prefill, when the last message is the beginning of the answer;
//   - the tool_choice "any" is "required";
//   - of a tool_choice with a list of allowed tools there are those tools and its mode;
//   - arguments of tool calls that hold no JSON object become one (Arguments);
//   - a refusal part of the assistant is a text;
//   - messages of the role developer are system's where the format knows no other;
//   - the salt of the prompt's cache is made of the format's and of the client's own.
//
// A member that is new stands right behind the opening brace. The request must have been decoded;
// dst must not overlap with its body.
func (r *Request) AppendUpstream(dst []byte, format *EngineFormat) []byte {
	r.text = r.splice(r.text[:0], format)
	return r.edits.Append(dst, r.body)
}

// Segments appends to segs the pieces of what AppendUpstream writes, without copying the body, for
// a vectored write. New text is appended to scratch. The pieces borrow from the body and from the
// returned scratch, and are valid until either is changed or r is reset.
func (r *Request) Segments(segs [][]byte, scratch []byte, format *EngineFormat) (pieces [][]byte, text []byte) {
	scratch = r.splice(scratch, format)
	return r.edits.Segments(segs, r.body), scratch
}

// splice fills r.edits with the changes for the engine. It appends their texts to text, and returns
// it.
func (r *Request) splice(text []byte, format *EngineFormat) []byte {
	r.edits.Reset()
	s := splicer{r: r, edits: &r.edits, root: r.doc.Root(), text: text}
	s.model(format)
	s.stream(format)
	s.tokenLimit(format)
	s.integers()
	s.reasoning(format)
	s.images()
	if r.anyTool {
		s.edits.Set(r.members[memberToolChoice], textRequired)
	}
	if r.allowed.limited {
		s.allowedTools()
	}
	s.arguments()
	s.refusals()
	if format.DeveloperAsSystem && r.developer {
		s.developers()
	}
	if format.Salt.Wanted() {
		s.insertMember(format.Salt.Member, format.Salt.Take(s.edits, s.root))
	}
	return s.text
}

// splicer writes the changes. Edits borrow from text; when it grows, the edits made before keep the
// old array.
type splicer struct {
	r     *Request
	edits *jsonx.Edits
	root  jsonx.Value
	text  []byte
}

var (
	textTrue            = []byte(`true`)
	textInsertStream    = []byte(`"stream":true,`)
	textUsage           = []byte(`{"include_usage":true}`)
	textUsageAlways     = []byte(`{"include_usage":true,"continuous_usage_stats":true}`)
	textInsertUsage     = []byte(`"stream_options":{"include_usage":true},`)
	textInsertUsageAlws = []byte(`"stream_options":{"include_usage":true,"continuous_usage_stats":true},`)
	textAddInclude      = []byte(`"include_usage":true`)
	textAddContinuous   = []byte(`"continuous_usage_stats":true`)
)

var textSystem = []byte(`"system"`)

var (
	textURLBefore = []byte(`{"url":`)
	textURLAfter  = []byte(`}`)
)

// images puts a URL that is given as a plain string into the object that engines read it from.
func (s *splicer) images() {
	for i := range s.r.Images {
		if m := &s.r.Images[i]; !m.object {
			s.edits.Insert(m.start, textURLBefore)
			s.edits.Insert(m.end, textURLAfter)
		}
	}
}

// allowedTools removes the tools that a list of allowed ones lacks.
func (s *splicer) allowedTools() {
	s.setString(s.r.members[memberToolChoice], s.r.allowed.mode)
	for it := s.r.members[memberTools].Iter(); it.Next(); {
		if !slices.Contains(s.r.allowed.positions, it.Index()) {
			s.edits.Delete(it.Value())
		}
	}
}

var textRequired = []byte(`"required"`)

// arguments makes those that engines would refuse, and with them the conversation, an object.
func (s *splicer) arguments() {
	for _, v := range s.r.malformed {
		n := len(s.text)
		s.text = s.r.arguments.Append(s.text, v)
		s.edits.Set(v, s.from(n))
	}
}

// developers makes messages of the role developer those of system.
func (s *splicer) developers() {
	for it := s.r.members[memberMessages].Iter(); it.Next(); {
		if role := it.Value().Get("role"); role.EqualText("developer") {
			s.edits.Set(role, textSystem)
		}
	}
}

// insert puts text behind the opening brace. It ends in a comma; the object is never empty.
func (s *splicer) insert(text []byte) { s.edits.Insert(s.root.Start()+1, text) }

// from returns what has been appended to s.text since it was n long.
func (s *splicer) from(n int) []byte { return s.text[n:len(s.text):len(s.text)] }

func (s *splicer) setString(v jsonx.Value, to string) {
	n := len(s.text)
	s.text = jsonx.AppendStringS(s.text, to)
	s.edits.Set(v, s.from(n))
}

func (s *splicer) insertMember(name string, value []byte) {
	n := len(s.text)
	s.text = jsonx.AppendStringS(s.text, name)
	s.text = append(append(append(s.text, ':'), value...), ',')
	s.insert(s.from(n))
}

func (s *splicer) delete(member int) {
	if v := s.r.members[member]; v.Exists() {
		s.edits.Delete(v)
	}
}

func (s *splicer) model(format *EngineFormat) {
	if v := s.r.members[memberModel]; !v.EqualText(format.Served) {
		s.setString(v, format.Served)
	}
}

func (s *splicer) stream(format *EngineFormat) {
	if !s.r.Stream && !format.Stream {
		s.delete(memberStreamOptions)
		return
	}
	switch v := s.r.members[memberStream]; {
	case s.r.Stream:
	case v.Exists():
		s.edits.Set(v, textTrue)
	default:
		s.insert(textInsertStream)
	}
	insert, set := textInsertUsage, textUsage
	if format.ContinuousUsage {
		insert, set = textInsertUsageAlws, textUsageAlways
	}
	switch v := s.r.members[memberStreamOptions]; {
	case !v.Exists():
		s.insert(insert)
	case v.IsNull():
		s.edits.Set(v, set)
	default:
		s.option(v, optionIncludeUsage, textAddInclude)
		if format.ContinuousUsage {
			s.option(v, optionContinuousUsage, textAddContinuous)
		}
	}
}

// option makes a member of stream_options true. Decode has seen to it that it is there at most
// once.
func (s *splicer) option(options jsonx.Value, name string, add []byte) {
	switch v := options.Get(name); {
	case !v.Exists():
		s.edits.Add(options, add)
	case v.Kind() != jsonx.True:
		s.edits.Set(v, textTrue)
	}
}

func (s *splicer) tokenLimit(format *EngineFormat) {
	LowerAliases(s.edits, s.root, s.r.Bound(), "")
	if s.r.TokenLimit() < 0 {
		return
	}
	want, other := memberMaxTokens, memberMaxCompletionTokens
	switch format.TokenMember {
	case memberNames[memberMaxTokens]:
	case memberNames[memberMaxCompletionTokens]:
		want, other = other, want
	default:
		if s.r.MaxTokens < 0 {
			break // the client wrote none, and engines of this kind read either
		}
		for _, m := range [...]int{want, other} {
			if Given(s.r.members[m]) {
				s.setLimit(s.r.members[m])
			}
		}
		return
	}
	if v := s.r.members[want]; v.Exists() {
		s.setLimit(v)
	} else {
		var digits [20]byte
		s.insertMember(memberNames[want], strconv.AppendInt(digits[:0], int64(s.r.TokenLimit()), 10))
	}
	s.delete(other)
}

// setLimit makes v the token limit.
func (s *splicer) setLimit(v jsonx.Value) { s.setInt(v, int64(s.r.TokenLimit())) }

// setInt makes v the integer n in digits, if it is not that already.
func (s *splicer) setInt(v jsonx.Value, n int64) {
	var digits [20]byte
	if bytes.Equal(v.Raw(), strconv.AppendInt(digits[:0], n, 10)) {
		return
	}
	at := len(s.text)
	s.text = strconv.AppendInt(s.text, n, 10)
	s.edits.Set(v, s.from(at))
}

// integers writes out integers such as 1.0 and 1e2, for engines that take nothing but digits.
func (s *splicer) integers() {
	for _, m := range [...]int{memberTopK, memberSeed, memberTopLogprobs, memberN} {
		v := s.r.members[m]
		if n, ok := v.Int(); ok {
			s.setInt(v, n)
		}
	}
}

// standardReasoning is the contract's own way, which vLLM, SGLang and others share.
var standardReasoning = Reasoning{Effort: "reasoning_effort"}

func (s *splicer) reasoning(format *EngineFormat) {
	s.delete(memberReasoning)
	s.delete(memberIncludeReasoning)
	how := format.Reasoning
	if how == nil {
		how = &standardReasoning
	}
	s.effort(how.Effort, how.word(s.r.Effort))
	added := how.added(s.r.Effort)
	s.addMembers(added, nil)
	if s.r.Prefilled {
		s.addMembers(format.Prefill, added)
	}
}

// added are the members that an effort adds.
func (how *Reasoning) added(effort string) []Member {
	switch effort {
	case "":
		return nil
	case "none":
		return how.Off
	}
	return how.On
}

// word returns the engine's word for effort; empty: nothing is said.
func (how *Reasoning) word(effort string) string {
	if effort == "" || len(how.Words) == 0 || slices.Contains(how.Words, effort) {
		return effort
	}
	if effort == "none" {
		return ""
	}
	return LowerEffort(how.Words, effort)
}

// effort says word in the member, and nothing when either is empty.
func (s *splicer) effort(member, word string) {
	v := s.r.members[memberReasoningEffort]
	if member != memberNames[memberReasoningEffort] {
		s.delete(memberReasoningEffort)
		if member == "" || word == "" {
			return
		}
		v = s.root.Get(member)
	}
	switch {
	case word == "":
		if Given(v) {
			s.edits.Delete(v)
		}
	case !v.Exists():
		n := len(s.text)
		s.text = jsonx.AppendStringS(s.text, member)
		s.text = append(s.text, ':')
		s.text = append(jsonx.AppendStringS(s.text, word), ',')
		s.insert(s.from(n))
	case !v.EqualText(word):
		s.setString(v, word)
	}
}

// addMembers adds the members of list, but for those that have been added before.
func (s *splicer) addMembers(list, before []Member) {
	for i := range list {
		m := &list[i]
		if slices.ContainsFunc(before, func(b Member) bool { return b.Name == m.Name }) {
			continue
		}
		switch v := s.root.Get(m.Name); v.Kind() {
		case jsonx.Invalid:
			s.insertMember(m.Name, m.Value)
		case jsonx.Null:
			s.edits.Set(v, m.Value)
		case jsonx.Object:
			s.merge(v, m.Value)
		}
	}
}

// merge adds the members of the object in value that the client's object v does not have.
func (s *splicer) merge(v jsonx.Value, value []byte) {
	var d jsonx.Doc
	if err := d.Parse(value, jsonx.Options{}); err != nil {
		panic("BUG: a member to add is not JSON: " + err.Error())
	}
	for it := d.Root().Iter(); it.Next(); {
		k := it.Key()
		if v.Get(string(k.Name())).Exists() {
			continue
		}
		n := len(s.text)
		s.text = append(append(append(s.text, '"'), k.Raw()...), `":`...)
		s.text = append(s.text, it.Value().Raw()...)
		s.edits.Add(v, s.from(n))
	}
}
