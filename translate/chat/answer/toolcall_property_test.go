package answer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"penstock/translate/chat/toolcall"
	"penstock/translate/sse"
)

// heardToolCall is a tool call as one of the readers understood it.
type heardToolCall struct{ ID, Name, Args string }

// toolCallPiece is one piece of a tool call from an engine. toolCallNumber is the number of the
// tool call to which the piece belongs.
type toolCallPiece struct {
	toolCallNumber int
	index          int // -1 if omitted
	id, name, args string
}

func (p *toolCallPiece) json() string {
	var b strings.Builder
	b.WriteString("{")
	if p.index >= 0 {
		fmt.Fprintf(&b, `"index":%d,`, p.index)
	}
	if p.id != "" {
		fmt.Fprintf(&b, `"id":%q,`, p.id)
	}
	b.WriteString(`"function":{`)
	if p.name != "" {
		fmt.Fprintf(&b, `"name":%q,`, p.name)
	}
	args, _ := json.Marshal(p.args)
	fmt.Fprintf(&b, `"arguments":%s}}`, args)
	return b.String()
}

// clientToolCall is the tool call that a client builds from the pieces with one index. It
// concatenates every string, like openai-python.
type clientToolCall struct {
	at   int
	call heardToolCall
}

// toolCallsOfStream passes chunks through a Stream and assembles each choice's tool calls as a
// client does.
func toolCallsOfStream(t *rapid.T, chunks []string) [][]heardToolCall {
	t.Helper()
	var s Stream
	s.Reset(&WriteOptions{Model: "m", ID: "fallback", Tools: offeredNames})
	var out []byte
	for _, chunk := range chunks {
		var err error
		if out, err = s.Append(out, sse.Event{Data: []byte(chunk)}); err != nil {
			t.Fatalf("Append to the stream = %v, want success", err)
		}
	}
	out, err := s.Finish(out)
	if err != nil {
		t.Fatalf("Finish of the stream = %v, want success", err)
	}
	var choices [][]clientToolCall
	for event := range strings.SplitSeq(string(out), "\n\n") {
		if strings.Contains(event, `"tool_calls":[]`) {
			t.Fatalf("no tool call: %s", event)
		}
		data, ok := strings.CutPrefix(event, "data: {")
		if !ok {
			continue
		}
		var got struct {
			Choices []struct {
				Index int
				Delta struct {
					Calls []struct {
						Index    *int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte("{"+data), &got); err != nil {
			t.Fatalf("Unmarshal of the event = %v, want success: %s", err, event)
		}
		for _, choice := range got.Choices {
			for len(choices) <= choice.Index {
				choices = append(choices, nil)
			}
			of := &choices[choice.Index]
			for _, piece := range choice.Delta.Calls {
				if piece.Index == nil {
					t.Fatalf("no index: %s", event)
				}
				i := slices.IndexFunc(*of, func(c clientToolCall) bool { return c.at == *piece.Index })
				if i < 0 {
					i = len(*of)
					*of = append(*of, clientToolCall{at: *piece.Index})
				}
				c := &(*of)[i].call
				c.ID += piece.ID
				c.Name += piece.Function.Name
				c.Args += piece.Function.Arguments
			}
		}
	}
	heard := make([][]heardToolCall, len(choices))
	for n, of := range choices {
		for i, c := range of {
			if c.at != i {
				t.Fatalf("choice %d: tool call %d has index %d", n, i, c.at)
			}
			heard[n] = append(heard[n], c.call)
		}
	}
	return heard
}

func toolCallsOfAssembler(t *rapid.T, chunks []string) [][]heardToolCall {
	t.Helper()
	var a Assembler
	a.SetToolNames(offeredNames)
	for _, chunk := range chunks {
		if err := a.AddEvent(sse.Event{Data: []byte(chunk)}); err != nil {
			t.Fatalf("Add to the assembler = %v, want success", err)
		}
	}
	text, err := a.AppendCompletion(nil, &WriteOptions{Model: "m", ID: "fallback"})
	if err != nil {
		t.Fatalf("the assembled answer = %v, want success", err)
	}
	var got struct {
		Choices []struct {
			Index   int
			Message struct {
				Calls []struct {
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	out := make([][]heardToolCall, len(got.Choices))
	for n, choice := range got.Choices {
		for _, c := range choice.Message.Calls {
			out[n] = append(out[n], heardToolCall{c.ID, c.Function.Name, c.Function.Arguments})
		}
	}
	return out
}

// toolCallsOfReader reads the tool calls of the first choice with a Reader, as the other dialects
// do.
func toolCallsOfReader(t *rapid.T, chunks []string) (out []heardToolCall) {
	t.Helper()
	var s Reader
	s.Reset("fallback", 0)
	s.SetTools(offeredNames, false)
	for _, chunk := range chunks {
		if _, err := s.Read(sse.Event{Data: []byte(chunk)}); err != nil {
			t.Fatalf("Read = %v, want success", err)
		}
	}
	for i := range s.ToolCalls.List {
		var args string
		if err := json.Unmarshal([]byte(`"`+string(s.ToolCalls.List[i].Args)+`"`), &args); err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(args) == "" {
			args += "{}" // as the translators do
		}
		out = append(out, heardToolCall{string(s.ToolCalls.ID(i)), string(s.ToolCalls.List[i].Name), args})
	}
	return out
}

// checkReaders checks that all readers understand the same tool calls, and returns them by choice.
func checkReaders(t *rapid.T, chunks []string, choices int) [][]heardToolCall {
	t.Helper()
	for i := range choices {
		chunks = append(chunks, `{"choices":[{"index":`+strconv.Itoa(i)+`,"delta":{},"finish_reason":"tool_calls"}]}`)
	}
	got, want := toolCallsOfStream(t, chunks), toolCallsOfAssembler(t, chunks)
	for n := range want {
		for i := range want[n] {
			if n < len(got) && i < len(got[n]) && got[n][i].Name == "" && got[n][i].ID == "" {
				got[n][i].ID = want[n][i].ID // no client can use a tool call without a name
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d choices streamed, %d whole", len(got), len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("whole and streamed differ: %s\n%s", diff, strings.Join(chunks, "\n"))
	}
	if diff := cmp.Diff(want[0], toolCallsOfReader(t, chunks)); diff != "" {
		t.Fatalf("chat and the other dialects differ: %s\n%s", diff, strings.Join(chunks, "\n"))
	}
	return want
}

func chunkOf(choice int, pieces []toolCallPiece) string {
	var texts []string
	for i := range pieces {
		texts = append(texts, pieces[i].json())
	}
	return fmt.Sprintf(`{"id":"c","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"index":%d,"delta":{"tool_calls":[%s]}}]}`,
		choice, strings.Join(texts, ","))
}

// These habits describe how engines may send the indexes, ids and names of tool calls.
var (
	indexHabits = []string{"right", "absent", "zero", "anew"}
	idHabits    = []string{"none", "first", "each"}
	nameHabits  = []string{"once", "each", "pieces", "growing"}
)

// offeredNames lists the tools that the engine may call. The engine also calls look_, which is not
// in the list.
var offeredNames = toolcall.ToolNames("f\x00g\x00look_up\x00look_at\x00look_up_all\x00")

// split returns the pieces of a name that an engine sends before the arguments.
func (h engineHabits) split(t *rapid.T, name string) []string {
	if h.names != "pieces" && h.names != "growing" || len(name) < 2 {
		return []string{name}
	}
	var out []string
	for rest := name; rest != ""; {
		n := rapid.IntRange(1, len(rest)).Draw(t, "cut of the name")
		if whole := name[:len(name)-len(rest)+n]; whole == "look_up" {
			n = len(rest) // rest is a complete tool name, so it is never held back
		}
		out, rest = append(out, rest[:n]), rest[n:]
	}
	if h.names == "growing" {
		for i := 1; i < len(out); i++ {
			out[i] = out[i-1] + out[i]
		}
	}
	return out
}

type engineHabits struct{ index, ids, names string }

// draw returns random tool calls and the deltas in which an engine with these habits sends them.
func (h engineHabits) draw(t *rapid.T, choice int) (meant []heardToolCall, deltas [][]toolCallPiece) {
	objects := []string{`{}`, `{"a":1}`, `{"a":{"b":[1,"}"]},"c":"x\"y\\"}`, `{"t":"{}"} `}
	if h.index == "right" { // tool calls without arguments can be distinguished only by their index
		objects = append(objects, "", " ")
	}
	var queues [][]toolCallPiece
	for n := range rapid.IntRange(1, 4).Draw(t, "tool calls") {
		c := heardToolCall{Name: rapid.SampledFrom([]string{"f", "g", "look_up", "look_up_all", "look_"}).Draw(t, "name"), Args: rapid.SampledFrom(objects).Draw(t, "args")}
		if h.ids != "none" {
			c.ID = fmt.Sprintf("id%d-%d", choice, n)
		}
		meant = append(meant, heardToolCall{c.ID, c.Name, argumentsOrEmpty(strings.TrimSpace(c.Args))})
		var queue []toolCallPiece
		names := h.split(t, c.Name)
		for _, name := range names[:len(names)-1] {
			queue = append(queue, toolCallPiece{toolCallNumber: n, id: c.ID, name: name})
		}
		begun := len(queue)
		for i := range queue {
			if h.ids == "first" && i > 0 {
				queue[i].id = ""
			}
		}
		rest := c.Args
		for i, pieces := 0, rapid.IntRange(1, 4).Draw(t, "pieces"); i < pieces; i++ {
			p := toolCallPiece{toolCallNumber: n}
			switch {
			case i == pieces-1:
				p.args, rest = rest, ""
			case i == 0 && rapid.Bool().Draw(t, "name first"):
			case len(rest) > 1:
				cut := rapid.IntRange(1, len(rest)-1).Draw(t, "cut")
				p.args, rest = rest[:cut], rest[cut:]
			default:
				continue
			}
			switch {
			case len(queue) == begun:
				p.name = names[len(names)-1]
			case h.names == "each":
				p.name = c.Name
			}
			if len(queue) == 0 && h.ids == "first" || h.ids == "each" {
				p.id = c.ID
			}
			queue = append(queue, p)
		}
		queues = append(queues, queue)
	}
	// Two interleaved tool calls whose pieces all have index 0 look like one tool call with a new
	// id in every piece. The start of a name is held back only until another tool call starts.
	mixed := (h.index == "right" || h.index == "absent" && h.ids == "each") && (h.names == "once" || h.names == "each") &&
		rapid.Bool().Draw(t, "interleaved")
	for len(queues) > 0 {
		var delta []toolCallPiece
		for range rapid.IntRange(1, 3).Draw(t, "pieces in a delta") {
			if len(queues) == 0 {
				break
			}
			n := 0
			if mixed {
				n = rapid.IntRange(0, len(queues)-1).Draw(t, "next")
			}
			delta = append(delta, queues[n][0])
			if queues[n] = queues[n][1:]; len(queues[n]) == 0 {
				queues = slices.Delete(queues, n, n+1)
			}
		}
		h.setIndexes(delta)
		deltas = append(deltas, delta)
	}
	return meant, deltas
}

// argumentsOrEmpty returns what clients receive for arguments.
func argumentsOrEmpty(args string) string {
	if args == "" {
		return "{}"
	}
	return args
}

// setIndexes sets the indexes of a delta's pieces.
func (h engineHabits) setIndexes(delta []toolCallPiece) {
	var met []int
	for i := range delta {
		p := &delta[i]
		if !slices.Contains(met, p.toolCallNumber) {
			met = append(met, p.toolCallNumber)
		}
		switch h.index {
		case "right":
			p.index = p.toolCallNumber
		case "absent":
			p.index = -1
		case "anew":
			p.index = slices.Index(met, p.toolCallNumber)
		}
	}
}

// TestToolCallsOfAnyEngine checks that a stream and a whole answer have the same tool calls,
// whatever the engine's habits are. If the habits make the tool calls distinguishable, the result
// must be the tool calls that the engine meant.
func TestToolCallsOfAnyEngine(t *testing.T) {
	for _, index := range indexHabits {
		for _, ids := range idHabits {
			for _, names := range nameHabits {
				h := engineHabits{index, ids, names}
				t.Run(index+" index, id "+ids+", name "+names, func(t *testing.T) {
					rapid.Check(t, h.check)
				})
			}
		}
	}
}

func (h engineHabits) check(t *rapid.T) {
	choices := rapid.IntRange(1, 3).Draw(t, "choices")
	meant := make([][]heardToolCall, choices)
	queues := make([][]string, choices)
	for n := range choices {
		var deltas [][]toolCallPiece
		meant[n], deltas = h.draw(t, n)
		if h.index == "right" || h.ids == "each" { // the tool calls are in the order of their first pieces
			var order []int
			for _, delta := range deltas {
				for _, p := range delta {
					if !slices.Contains(order, p.toolCallNumber) {
						order = append(order, p.toolCallNumber)
					}
				}
			}
			sorted := make([]heardToolCall, len(order))
			for i, of := range order {
				sorted[i] = meant[n][of]
			}
			meant[n] = sorted
		}
		for _, delta := range deltas {
			queues[n] = append(queues[n], chunkOf(n, delta))
		}
	}
	var chunks []string
	for left := choices; left > 0; {
		n := rapid.IntRange(0, choices-1).Draw(t, "choice")
		if len(queues[n]) == 0 {
			continue
		}
		chunks = append(chunks, queues[n][0])
		if queues[n] = queues[n][1:]; len(queues[n]) == 0 {
			left--
		}
	}
	got := checkReaders(t, chunks, choices)
	if h.index == "anew" && h.ids != "each" {
		return // a piece without a name could belong to any tool call
	}
	for n := range got {
		for i := range got[n] {
			if h.ids == "none" {
				got[n][i].ID = ""
			}
			// Space between the pieces of two objects may belong to either of them.
			got[n][i].Args = strings.TrimSpace(got[n][i].Args)
		}
	}
	if diff := cmp.Diff(meant, got); diff != "" {
		t.Fatalf("not what the engine meant: %s\n%s", diff, strings.Join(chunks, "\n"))
	}
}

// TestToolCallsOfImpossibleEngines checks that all readers agree even on pieces that no engine
// would send.
func TestToolCallsOfImpossibleEngines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var chunks []string
		choices := rapid.IntRange(1, 2).Draw(t, "choices")
		for n := range choices {
			chunks = append(chunks, fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"role":"assistant"}}]}`, n))
		}
		for range rapid.IntRange(1, 10).Draw(t, "chunks") {
			delta := make([]toolCallPiece, rapid.IntRange(1, 3).Draw(t, "pieces"))
			for i := range delta {
				delta[i] = toolCallPiece{
					index: rapid.IntRange(-1, 2).Draw(t, "index"),
					id:    rapid.SampledFrom([]string{"", "", "a", "b", "0"}).Draw(t, "id"),
					name:  rapid.SampledFrom([]string{"", "", "f", "g", "loo", "look_", "k_", "up", "look_at"}).Draw(t, "name"),
					args:  rapid.SampledFrom([]string{"", " ", "{", "}", "{}", `"a"`, ":1", `{"a":`, `"\`, `"`}).Draw(t, "args"),
				}
			}
			chunks = append(chunks, chunkOf(rapid.IntRange(0, choices-1).Draw(t, "choice"), delta))
		}
		checkReaders(t, chunks, choices)
	})
}

// TestToolCallShortCut checks that pieces that differ only in their arguments use the fast path.
// The edge may even change the index or the id in each of them.
func TestToolCallShortCut(t *testing.T) {
	for name, members := range map[string]string{
		"by the book": `"index":0,`, "no index": ``, "another index": `"index":7,`, "id in each piece": `"id":"a",`,
	} {
		t.Run(name, func(t *testing.T) {
			var s Stream
			s.Reset(&WriteOptions{Model: "public"})
			piece := func(function string) sse.Event {
				return sse.Event{Data: []byte(`{"id":"c","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{` +
					members + `"function":{` + function + `}}]}}]}`)}
			}
			if _, err := s.Append(nil, piece(`"name":"f","arguments":""`)); err != nil {
				t.Fatal(err)
			}
			for i := range 8 {
				ev := piece(`"arguments":"` + strconv.Itoa(i) + `"`)
				if _, same := s.template.matchText(ev.Data); same != (i > 0) {
					t.Errorf("piece %d: short cut %v", i, same)
				}
				if _, err := s.Append(nil, ev); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
